"""The face of the grammar engine towards the runtime: one `Matcher` per request.

A budget counts the tokens left, this one included; the stop token costs none: an answer of n tokens needs a budget of
n. `CompiledGrammar` (compiled.py) makes matchers; `MaskTable` (rows.py) holds the rows they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from .explain import expected
from .ir import special
from .masks.configuration import UNFORCED, Configuration, Explorer, Plan
from .rows import Row
from .stepping.walk import STATE

if TYPE_CHECKING:
    from .compiled import CompiledGrammar

_CONTEXT = 8
SPECIAL = special("")[0]  # what edges of special tokens begin with


class TokenRejected(ValueError):
    """The token does not fit here. `token` is its id; the matcher stays where it was."""

    def __init__(self, token: int, reason: str) -> None:
        super().__init__(f"token {token} is not allowed here: {reason}")
        self.token = token


class _Position(msgspec.Struct, eq=False):
    """One place in a text, linked to the place before it: rollback follows the links, a copy shares them.

    configuration: None after a stop id. plan: the forced tokens from here on; need: the budget for them and the rest.
    """

    before: _Position | None
    token: int
    configuration: Configuration | None
    plan: tuple[int, ...]
    need: int


class Matcher:
    """Where one answer stands in its grammar. A row it returned is valid until it is asked for another, rolls back or
    is closed."""

    # _index: of the row `_pinned`, which is the unlimited one of the position `_asked` where that is not None.
    # _alone: its own text fills the explorer, so that it stays there and is closed.
    __slots__ = ("_alone", "_asked", "_closing", "_explorer", "_forcing", "_grammar", "_index", "_pinned", "_position")

    def __init__(self, grammar: CompiledGrammar, explorer: Explorer, *, forcing: bool, closing: bool) -> None:
        self._grammar = grammar
        self._explorer = explorer
        self._forcing = forcing
        self._closing = closing
        self._alone = False
        self._pinned: Row | None = None
        self._asked: _Position | None = None
        self._index = 0
        start = explorer.start
        plan = grammar.plan(explorer, start, ()) if forcing else UNFORCED
        self._position = _Position(None, -1, start, plan.tokens, plan.need)

    def row(self, budget: int | None) -> int:
        """The mask row of the next token. budget: tokens left, this one included; None: no limit.

        Raises BudgetTooSmall when the text cannot be closed in `budget`, ConstraintTooLarge when a budget of the engine
        is passed.
        """
        position = self._position
        configuration = position.configuration
        if configuration is not None and not position.plan and not self._alone:
            row, pinned = configuration.row, self._pinned
            if (row is not None and row.index >= 0
                    and (budget is None or budget >= configuration.safe or not self._closing)):
                if row is not pinned:
                    row.pins += 1
                    self._release()
                    self._pinned, self._index = row, row.index
                self._asked = position
                return self._index
        row = self._find_row(position, budget)
        self._release()
        self._pinned, self._index = row, row.index
        return row.index

    def _find_row(self, position: _Position, budget: int | None) -> Row:
        """The row where it is not simply that of the configuration, pinned once."""
        if position.plan and self._followed(position, budget):
            return self._grammar.single_row(position.plan[0])
        if position.configuration is None:
            return self._grammar.stop_row()
        if self._alone and (self._explorer.full or position.configuration.heavy):
            least = self.min_tokens()
            budget = least if budget is None else min(budget, least)
        return self._grammar.row(self._explorer, position.configuration, budget if self._closing else None)

    def _release(self) -> None:
        if self._pinned is not None:
            self._grammar.table.unpin(self._pinned)
            self._pinned = self._asked = None

    def accept(self, token: int) -> None:
        """Moves past a token. Raises TokenRejected when it does not fit, or ConstraintTooLarge, and stays."""
        position = self._position
        configuration = position.configuration
        rest = position.plan
        if rest:
            if token != rest[0]:
                raise TokenRejected(token, f"token {rest[0]} is forced")
            rest = rest[1:]
        successor = None
        if configuration is not None:
            successor = configuration.next.get(token)
            if successor is None:
                if (self._explorer.full or configuration.heavy) and self._moved():
                    self.accept(token)
                    return
                successor = self._explorer.advance(configuration, token)
        if successor is None:
            self._end(configuration, token)
        following = _Position(position, token, successor, rest, position.need - 1)
        if self._forcing and not rest and successor is not None:
            plan = self._plan(following, successor)
            following.plan, following.need = plan.tokens, plan.need
        self._position = following

    def _moved(self) -> bool:
        """Leaves an explorer that the texts of many have filled for one with room, where its text is read again. One
        that alone fills an explorer stays."""
        for _ in range(0 if self._alone else 2):  # in one with others there may be too little room
            explorer = self._grammar.explorer()
            position = self._read_again(explorer)
            if position is not None:
                self._explorer, self._position, self._asked = explorer, position, None
                return True
        self._alone = True
        return False

    def _read_again(self, explorer: Explorer) -> _Position | None:
        """Where its text leads in another explorer; None: there is no room for it."""
        here, later = self._position, []
        while here.before is not None:
            later.append(here)
            here = here.before
        position = _Position(None, -1, explorer.start, here.plan, here.need)
        for old in reversed(later):
            successor = None
            if old.configuration is not None and position.configuration is not None:
                successor = explorer.advance(position.configuration, old.token)
                if successor is None or successor.heavy or explorer.full:
                    return None
            position = _Position(position, old.token, successor, old.plan, old.need)
        return position

    def _end(self, configuration: Configuration | None, token: int) -> None:
        """Whether the text may end with a token that leads nowhere. Raises as accept does."""
        if configuration is None:
            if not self._is_stop(token):
                raise TokenRejected(token, "the text has ended")
        elif not self._is_stop(token):
            raise TokenRejected(token, self.explain())
        elif configuration.distance > 0:
            raise TokenRejected(token, f"the text is not complete, {self.explain()}")

    def _is_stop(self, token: int) -> bool:
        return token in self._grammar.vocabulary.stop

    def _successor(self, configuration: Configuration, token: int) -> Configuration | None:
        if token in configuration.next:
            return configuration.next[token]
        return self._explorer.advance(configuration, token)

    def _followed(self, position: _Position, budget: int | None) -> bool:
        """Whether the plan is kept. The tokenizer's own tokens may be more than the fewest: where they would not leave
        enough of the budget nothing is forced, and the budget alone decides."""
        if self._closing and budget is not None and budget < position.need:
            position.plan = ()
        return bool(position.plan)

    def _plan(self, position: _Position, configuration: Configuration) -> Plan:
        forced = configuration.forced
        if forced is not None and not forced.text:
            return UNFORCED
        last: list[int] = []
        here: _Position | None = position
        while here is not None and here.before is not None and len(last) < _CONTEXT:
            last.append(here.token)
            here = here.before
        return self._grammar.plan(self._explorer, configuration, tuple(reversed(last)))

    def allows(self, token: int) -> bool:
        """Whether the token fits here, budgets aside."""
        position = self._position
        configuration = position.configuration
        if position.plan:
            return token == position.plan[0]
        if configuration is None:
            return self._is_stop(token)
        if self._is_stop(token):
            return configuration.distance == 0
        return self._successor(configuration, token) is not None

    def rollback(self, n: int) -> None:
        """Takes back the last n accepted tokens. Raises ValueError, and stays, when there were fewer."""
        position = self._position
        for _ in range(n):
            if position.before is None:
                raise ValueError(f"cannot roll back {n} tokens: fewer were accepted")
            position = position.before
        self._move(position)

    def _move(self, position: _Position) -> None:
        self._release()
        self._position = position

    def copy(self) -> Matcher:
        """An independent matcher at the same place; O(1)."""
        twin = Matcher.__new__(Matcher)
        twin._grammar, twin._explorer = self._grammar, self._explorer
        twin._forcing, twin._closing, twin._alone = self._forcing, self._closing, self._alone
        twin._pinned, twin._asked, twin._index, twin._position = None, None, 0, self._position
        return twin

    def forced(self, limit: int, budget: int | None = None) -> list[int]:
        """The next tokens that leave no choice, at most `limit`, not yet accepted; [] when there is a choice, or when
        they would not leave enough of `budget`, the tokens left."""
        self._followed(self._position, budget)
        return list(self._position.plan[: max(limit, 0)])

    def min_tokens(self) -> int:
        """An upper bound of the tokens to the end; 0 when the text may end here."""
        configuration = self._position.configuration
        if configuration is not None and configuration.loose:
            self._explorer.tighten(configuration)
        return 0 if configuration is None else configuration.distance

    @property
    def left_out(self) -> int:
        """After how many tokens of texts of this grammar, others' too, there were more readings than are followed: the
        farthest from the end were left out, so that less may follow than the grammar allows."""
        return self._explorer.left_out

    def may_end(self) -> bool:
        """Whether the text so far is complete: the stop ids are allowed."""
        configuration = self._position.configuration
        return configuration is None or configuration.distance == 0

    def must_end(self) -> bool:
        """Whether the text is complete and nothing but a stop id may follow."""
        configuration = self._position.configuration
        if configuration is None:
            return True
        return configuration.distance == 0 and not self._explorer.following(configuration.threads, configuration.answer)

    def explain(self) -> str:
        """What may come next, for messages: "expected ',', '0'..'9' or '}' in integer at #/properties/age"."""
        configuration = self._position.configuration
        if configuration is None:
            return "the text has ended"
        following = self._explorer.following(configuration.threads, configuration.answer)
        others: list[str] = []
        if SPECIAL in following:
            specials = self._grammar.vocabulary.specials
            others = [name for name in self._grammar.grammar.specials
                      if self._successor(configuration, specials[name]) is not None]
        if configuration.distance == 0:
            others.append("the end")
        text = self._explorer.forced(configuration).text.partition(special("")[:1])[0]
        places = dict.fromkeys(self._grammar.place(state) for state in configuration.threads[:, STATE].tolist())
        return expected(bytes(byte for byte in following if byte != SPECIAL), text, others, list(places))

    def close(self) -> None:
        """Gives its pins back. The matcher can still be used."""
        self._move(self._position)


def rows_of(matchers: Sequence[Matcher]) -> list[int]:
    """The rows of a batch without budgets: `row(None)` of each."""
    return [matcher._index if matcher._asked is matcher._position else matcher.row(None) for matcher in matchers]
