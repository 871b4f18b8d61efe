"""The invariants of a grammar, checked before the engine sees it and after it crossed a border."""

from __future__ import annotations

from .ir import (
    CLOSE_KEY,
    COUNT,
    IR_VERSION,
    KEY,
    MEET,
    NOTHING,
    OPEN_KEY,
    WRITTEN,
    Counter,
    Grammar,
    Members,
    Order,
    Rule,
    unpack_edges,
)

_EDGE_BYTES = 20


class BrokenGrammar(ValueError):
    """A grammar that the compiler should not have made, or that was damaged on its way."""


def verify(grammar: Grammar) -> None:
    """Raises BrokenGrammar with the rule that is at fault."""
    if grammar.version != IR_VERSION:
        raise BrokenGrammar(f"version {grammar.version} is not {IR_VERSION}")
    if not 0 <= grammar.start < len(grammar.rules):
        raise BrokenGrammar(f"the start rule {grammar.start} is not one of {len(grammar.rules)} rules")
    for number, rule in enumerate(grammar.rules):
        _verify_rule(number, rule, len(grammar.rules))
    _verify_empty(grammar)
    _verify_left_recursion(grammar)


def _fail(number: int, rule: Rule, message: str) -> None:
    raise BrokenGrammar(f"rule {number} ({rule.name}): {message}")


def _verify_rule(number: int, rule: Rule, rules: int) -> None:
    if rule.states < 1 or len(rule.edges) % _EDGE_BYTES:
        _fail(number, rule, "no states, or broken edges")
    previous = (-1, 256)
    for source, low, high, target, action in sorted(unpack_edges(rule.edges)):
        if not (0 <= source < rule.states and 0 <= target < rule.states and 0 <= low <= high <= 255):
            _fail(number, rule, f"the edge {source} -{low}..{high}-> {target} is out of range")
        if source == previous[0] and low <= previous[1]:
            _fail(number, rule, f"two edges of state {source} overlap at byte {low}")
        previous = (source, high)
        _verify_action(number, rule, action)
    for call in rule.calls:
        if not (0 <= call.source < rule.states and 0 <= call.target < rule.states and 0 <= call.rule < rules):
            _fail(number, rule, f"the call {call.source} -rule {call.rule}-> {call.target} is out of range")
        _verify_action(number, rule, call.action)
    if not all(0 <= state < rule.states for state in rule.finals):
        _fail(number, rule, "a final state is out of range")


def _verify_action(number: int, rule: Rule, action: int) -> None:
    register = rule.register
    fits = (
        action == NOTHING
        or (action == COUNT and isinstance(register, Counter))
        or (action in (OPEN_KEY, CLOSE_KEY) and isinstance(register, Order | Members))
        or (action in (WRITTEN, MEET) and isinstance(register, Members))
        or (isinstance(register, Order | Members) and KEY <= action < KEY + len(register.required))
    )
    if not fits:
        _fail(number, rule, f"the action {action} does not fit the register {register}")


def _verify_empty(grammar: Grammar) -> None:
    """Only the start rule may accept the empty text. No rule is empty, so a call never is: state 0 decides."""
    for number, rule in enumerate(grammar.rules):
        called = number != grammar.start or any(c.rule == number for r in grammar.rules for c in r.calls)
        if 0 in rule.finals and called:
            _fail(number, rule, "it accepts the empty text")


def _verify_left_recursion(grammar: Grammar) -> None:
    """No rule calls itself before it has read a byte: depth-first over the calls of state 0, iterative."""
    first = [sorted({call.rule for call in rule.calls if call.source == 0}) for rule in grammar.rules]
    colour = [0] * len(first)  # 0 new, 1 on the path, 2 done
    for root in range(len(first)):
        stack = [(root, iter(first[root]))] if colour[root] == 0 else []
        colour[root] = colour[root] or 1
        while stack:
            number, calls = stack[-1]
            follower = next(calls, None)
            if follower is None:
                colour[number] = 2
                stack.pop()
            elif colour[follower] == 1:
                _fail(follower, grammar.rules[follower], "it calls itself before it reads a byte")
            elif colour[follower] == 0:
                colour[follower] = 1
                stack.append((follower, iter(first[follower])))
