"""Keys written out from their names: each name is read as itself, every other key as a free one, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from espalier.grammars.binding.flat import Flat
from espalier.grammars.binding.names import with_names
from espalier.grammars.binding.verify import verify
from espalier.grammars.ir import CHARACTER, CLOSE_KEY, KEY, NOTHING, OPEN_KEY, Grammar, Members, Names, Rule, pack_edges

TEXTS = st.text(st.sampled_from("ab\ud7ff\ue000\U0010ffff\0\""), max_size=4)
# By name whether a declared property has it, and, for each rule, whether other keys are free.
DRAWN = st.lists(st.tuples(st.dictionaries(TEXTS, st.booleans(), max_size=6), st.booleans()), min_size=1, max_size=3)


def _rule(named: dict[str, bool], free: bool) -> Rule:
    """State 1 is behind declared keys, 2 behind others, 3 before all."""
    names = sorted(named)
    declared = [name for name in names if named[name]]
    keys = tuple(declared.index(name) if named[name] else -1 for name in names)
    return Rule("r", "", 4, pack_edges([(0, 0x22, 0x22, 3, OPEN_KEY)]), (), (1, 2),
                Members((False,) * len(declared)), Names(tuple(names), keys, (1,) * len(names), 2 if free else -1))


def _read(flat: Flat, rule: int, text: str) -> tuple[int, int] | None:
    """(state, action) behind a key and its quote."""
    state, edges = 3, flat.edges_of(rule).tolist()
    for symbol in (*(CHARACTER + ord(character) for character in text), 0x22):
        moves = [(target, action) for _, here, low, high, target, action in edges
                 if here == state and low <= symbol <= high]
        assert len(moves) <= 1
        if not moves:
            return None
        state, action = moves[0]
        assert symbol == 0x22 or action == NOTHING
    return state, action


@given(DRAWN, st.lists(TEXTS, max_size=4))
def test_names_are_told_from_all_other_keys(drawn, texts):
    grammar = Grammar(tuple(_rule(*one) for one in drawn), 0)
    flat = with_names(verify(grammar))
    for number, (named, free) in enumerate(drawn):
        names = grammar.rules[number].names
        for text in {*texts, *named, *(name[:-1] for name in named), *(name + "a" for name in named)}:
            if text not in named:
                wanted = (2, CLOSE_KEY) if free else None
            elif named[text]:
                wanted = (1, KEY + names.keys[names.names.index(text)])
            else:
                wanted = None
            assert _read(flat, number, text) == wanted, text


@given(DRAWN)
def test_edges_stay_sorted_by_their_source_and_within_the_states(drawn):
    flat = with_names(verify(Grammar(tuple(_rule(*one) for one in drawn), 0)))
    for number, states in enumerate(flat.states.tolist()):
        edges = flat.edges_of(number)
        assert edges[:, 1].tolist() == sorted(edges[:, 1].tolist())
        assert edges[:, [1, 4]].max() < states
