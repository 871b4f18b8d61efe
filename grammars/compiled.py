"""A grammar bound to a vocabulary: its tables, the explorer of its configurations, and its finished masks."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np

from .binding.tables import ALIKE, DISTINCT, MEMBERS, RULE, UNLIKE, WIDEST, Layout, Tables
from .distances.distance import compile_tables
from .distances.token_paths import regular
from .effort import CollectorPaused
from .errors import BudgetTooSmall, InvalidConstraint, MissingByte
from .explain import place
from .forcing import forced_tokens
from .ir import Grammar, Unlike
from .item_prices import item_prices
from .masks.configuration import UNFORCED, Configuration, Explorer, Limits, Plan
from .masks.doubts import tokens_of
from .masks.finished import FAR_LOOKED, FRESH, GROWS, MARKED_HERE, STRUCK, UNSURE, Finished, Mask
from .masks.masking import NO_LIMIT
from .matcher import Matcher
from .missing_bytes.crossing import crossed
from .missing_bytes.gaps import GAP, has_gaps
from .rows import MaskTable, Row
from .stepping.another import ANY
from .vocabulary import Vocabulary

_AROUND = b",]} \t\n\r"
_CONTEXT = 8  # ids before a forced text that its tokens may depend on


class CompiledGrammar:
    """Shared by all matchers of one constraint and one vocabulary. min_tokens: U(start), which a budget must reach.

    Raises MissingByte, Unsatisfiable, ConstraintTooLarge, InvalidConstraint.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, table: MaskTable,
                 limits: Limits | None = None) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.table = table
        self.notes = grammar.notes
        self._check_specials()
        self._limits = Limits() if limits is None else limits
        with CollectorPaused():
            self._layout = Layout(grammar, self._limits.states, self._limits.distances, vocabulary.single)
            self.tables = self._compile_or_cross()
            self._unlike = UNLIKE in self._layout.flat.present
            prices = item_prices(self.tables, self._layout, vocabulary) if self._unlike else None
            if prices is not None and prices.any():
                self.tables = self._compile(prices)
        self._gaps = bool(vocabulary.wide) and has_gaps(self.tables)
        # Whether two items of some list must be equal: there each allowed token is tested near the end of a budget.
        self._alike = self._unlike and bool(self.tables.rules[:, ALIKE].any())
        # Whether all items of some list must differ by value.
        self._differ = self._unlike and any(
            isinstance(rule.register, Unlike) and not rule.register.alike for rule in self._layout.rules)
        self._priced = self._alike and (self._differ or DISTINCT in self._layout.flat.present)
        self._unordered = MEMBERS in self._layout.flat.present
        self._heeds_keys = self._alike or self._unordered or DISTINCT in self._layout.flat.present
        self._lock = threading.RLock()
        self._finished = Finished(self.tables, vocabulary)
        self._singles: dict[int, Row] = {}
        self._stops: Row | None = None
        self._explorer = self._explore()
        self.min_tokens = self._explorer.start.distance

    def _compile_or_cross(self) -> Tables:
        """Where nothing else closes, tables of a grammar whose rules tokens may cross; it takes this one's place."""
        try:
            return self._compile()
        except MissingByte:
            limits, found = self._limits, None
            if not regular(self._layout, self.grammar.start):  # those are exact
                found = crossed(self.grammar, self.vocabulary, limits.states, limits.distances)
            if found is None:
                raise
            self.grammar, self._layout, tables = found
            return tables

    def _compile(self, prices: Any = None) -> Tables:
        vocabulary = self.vocabulary
        return compile_tables(self.grammar, self._layout, vocabulary.single, vocabulary.wide, vocabulary.trie,
                              vocabulary.heads, prices)

    @cached_property
    def _widest(self) -> int:
        """The most that a frame needs in which keys or items must differ; with unlike items, that any frame needs."""
        rules, kinds = self.tables.rules, self._layout.flat.kinds
        return int((rules if self._unlike else rules[kinds >= DISTINCT])[:, WIDEST].max(initial=0))

    def _check_specials(self) -> None:
        for name in self.grammar.specials:
            if name not in self.vocabulary.specials:
                raise InvalidConstraint(f"{name!r} is no special token of this model", keyword="specials",
                                        where="specials", fix="Leave it out there: it is then written as text.")

    def _explore(self) -> Explorer:
        start = self._layout.offsets[self.grammar.start]
        return Explorer(self.tables, start, self.vocabulary, self._limits, gaps=self._gaps)

    def matcher(self, *, forcing: bool = True, closing: bool = True) -> Matcher:
        """A matcher at the start. forcing, closing: whether the overlays of laws 5 and 4 are on."""
        self.table.reach_ahead()
        return Matcher(self, self.explorer(), forcing=forcing, closing=closing)

    def explorer(self) -> Explorer:
        """The one in which texts begin."""
        with self._lock:
            if self._explorer.crowded:
                self._explorer = self._explore()
            return self._explorer

    def row(self, explorer: Explorer, configuration: Configuration, budget: int | None) -> Row:
        """The row of a configuration under a budget, pinned once. Raises BudgetTooSmall below its U."""
        self._lock.acquire()  # `with` takes a tenth of a microsecond more
        try:
            if configuration.loose and budget is not None and budget < configuration.distance + self._detour(explorer):
                explorer.tighten(configuration, self._detour(explorer))
            if budget is not None and budget < configuration.distance:
                raise BudgetTooSmall(configuration.distance, budget)
            if self._gaps:
                return self._limited_row(explorer, configuration, GAP if budget is None else min(budget, GAP))
            if configuration.row is None or configuration.row.index < 0:
                configuration.row = self._plain_row(explorer, configuration)
            else:
                self.table.pin(configuration.row)
            if budget is None or budget >= configuration.safe:
                return configuration.row
            limited = self._limited_row(explorer, configuration, budget)
            self.table.unpin(configuration.row)
            return limited
        finally:
            self._lock.release()

    def _plain_row(self, explorer: Explorer, configuration: Configuration) -> Row:
        """The grammatical row: the shared mask, less the tokens that written keys forbid. Pinned."""
        mask = self._mask(explorer, configuration)
        answer = self._finished.answer
        configuration.clear = configuration.distance + answer[GROWS] + self._reserve(explorer, configuration) + 1
        configuration.safe = configuration.clear
        if not (self._unlike or answer[STRUCK] or answer[UNSURE]):
            return mask.row
        struck, unsure = explorer.verdicts(configuration, self._finished)
        tokens = unsure[:, 0]
        if self._alike:
            configuration.safe, configuration.clear = configuration.clear + self._detour(explorer), NO_LIMIT
        if self._differ and (configuration.unlike or answer[MARKED_HERE]):
            configuration.safe += int(answer[FAR_LOOKED] + 1) * self._each(explorer) + self._detour(explorer)
            told = explorer.doubtful(configuration, self.table.array[mask.row.index].view(np.uint32), unsure)
            tokens = np.union1d(tokens, told) if self._alike else told
        if not len(struck) and not len(tokens):
            return mask.row
        name = struck.tobytes()
        row = None if len(tokens) or mask.less is None else mask.less.get(name)
        if row is not None and row.index >= 0:
            self.table.pin(row)
        else:
            row = self._less(explorer, configuration, mask, struck, tokens)
            if not len(tokens):
                mask.less = {} if mask.less is None else mask.less
                mask.less[name] = row
        self.table.unpin(mask.row)
        return row

    def _mask(self, explorer: Explorer, configuration: Configuration) -> Mask:
        """The finished mask of a configuration, its row pinned: found by what it depends on, or walked. Its room tells
        of it."""
        finished = self._finished
        number, fresh = explorer.look(configuration, finished), finished.answer[FRESH]
        mask = None if fresh else finished.masks.get(number)
        if mask is not None and mask.row.index >= 0:
            mask.row.pins += 1
            return mask
        if not fresh:
            number = explorer.find(configuration, finished)
        words = explorer.words
        if configuration.distance == 0:
            words |= self.vocabulary.stop_words
        mask = finished.masks[number] = Mask(self.table.add(words))
        return mask

    def _less(self, explorer: Explorer, configuration: Configuration, mask: Mask, struck: Any, unsure: Any) -> Row:
        """The row of a mask without the tokens `struck`, and without those tokens `unsure` that cannot be read."""
        words = explorer.without(self.table.array[mask.row.index].view(np.uint32), struck)
        cleared = explorer.strike(configuration, words, unsure, NO_LIMIT if self._alike else ANY)
        if not cleared and not len(struck):
            self.table.pin(mask.row)
            return mask.row
        return self.table.add(words)

    def _reserve(self, explorer: Explorer, configuration: Configuration) -> int:
        """How much more than the mask's growth U can grow because of free keys, at most."""
        answer = self._finished.answer
        held = configuration.used or (self._alike and configuration.unlike)
        if not self._heeds_keys or not (held or answer[MARKED_HERE]):
            return 0
        return int(answer[FAR_LOOKED] + 1) * self._each(explorer)

    def _each(self, explorer: Explorer) -> int:
        """The same for one frame that a walk looked into."""
        return 2 * self._widest + self.vocabulary.longest + 2 + explorer.longest_key()

    def _detour(self, explorer: Explorer) -> int:
        """How much more U of a configuration is than it was told, at most, because of items that must be unlike: one
        that is longer than all of them is another."""
        return 4 * self._widest + self.vocabulary.longest + 2 * explorer.longest_key() if self._unlike else 0

    def _limited_row(self, explorer: Explorer, configuration: Configuration, budget: int) -> Row:
        """The row when the budget is near: only successors that can still close in what is left after one token."""
        if configuration.limited is None:
            configuration.limited = {}
        row = configuration.limited.get(budget)
        if row is not None and row.index >= 0:
            self.table.pin(row)
            return row
        near = self._unlike and budget >= configuration.clear
        exact = near or configuration.used or self._unordered
        if near and configuration.row is not None:
            marked = self._marks(explorer, configuration, configuration.row)
        else:
            # What is written again may be nearer than prices of items that differ say.
            limit = NO_LIMIT if self._priced and configuration.answer else budget - 1
            marked = explorer.walk(configuration, limit, exact=exact)
        words, tokens = explorer.words, marked[:, 0]
        if self._alike and (configuration.answer or len(marked)):
            if configuration.answer:
                self._fewer(words)
            tokens = tokens_of(words)
        elif self._unlike:
            tokens = explorer.doubtful(configuration, words, marked, near=True, exact=exact)
        if not exact or self._unlike:
            explorer.strike(configuration, words, tokens, budget - 1)
        if configuration.distance == 0:
            words |= self.vocabulary.stop_words
        row = configuration.limited[budget] = self.table.add(words)
        return row

    def _fewer(self, words: Any) -> None:
        """Leaves so many tokens of a mask as there is time to test: all that a way home may take, which is of single
        bytes inside items that are compared and begins with a comma, a bracket or a blank around them, and the first
        others."""
        tokens = tokens_of(words)
        if len(tokens) > self._limits.tested:
            texts = self.vocabulary.tokens
            for token in tokens[self._limits.tested:].tolist():
                if len(texts[token]) > 1 and texts[token][0] not in _AROUND:
                    words[token >> 5] &= ~np.uint32(1 << (token & 31))

    def _marks(self, explorer: Explorer, configuration: Configuration, row: Row) -> Any:
        """The tokens marked in the mask of a configuration. Its row is put into the explorer's words."""
        mask = self._mask(explorer, configuration)
        _, marked = explorer.verdicts(configuration, self._finished)
        self.table.unpin(mask.row)
        explorer.without(self.table.array[row.index].view(np.uint32), marked[:0, 0].copy())
        return marked

    def single_row(self, token: int) -> Row:
        """The row that allows one token, pinned once."""
        with self._lock:
            row = self._singles.get(token)
            if row is None or row.index < 0:
                words = np.zeros(self.vocabulary.words, np.uint32)
                words[token >> 5] = np.uint32(1 << (token & 31))
                row = self._singles[token] = self.table.add(words)
            else:
                self.table.pin(row)
            return row

    def stop_row(self) -> Row:
        """The row that allows the stop ids only, pinned once."""
        with self._lock:
            if self._stops is None or self._stops.index < 0:
                self._stops = self.table.add(self.vocabulary.stop_words)
            else:
                self.table.pin(self._stops)
            return self._stops

    def plan(self, explorer: Explorer, configuration: Configuration, last: tuple[int, ...]) -> Plan:
        """The forced tokens from a configuration on, after the ids `last` (the newest _CONTEXT of them count)."""
        forced = explorer.forced(configuration)
        if not forced.text:
            return UNFORCED
        last = last[-_CONTEXT:]
        if configuration.plans is None:
            configuration.plans = {}
        plan = configuration.plans.get(last)
        if plan is None:
            with self._lock:
                tokens = forced_tokens(explorer, self.vocabulary, configuration, last)
                need = self._need(explorer, configuration, tokens)
                plan = UNFORCED if need is None or not tokens else Plan(tokens, need)
            configuration.plans[last] = plan
        return plan

    def _need(self, explorer: Explorer, configuration: Configuration, tokens: tuple[int, ...]) -> int | None:
        """The budget for these tokens and what follows them. The tokenizer's own may be more than the fewest. None:
        no way was found over a byte that is no token."""
        here: Configuration | None = configuration
        for token in tokens:
            here = here.next.get(token) or explorer.advance(here, token) if here is not None else None
        if here is None and self._gaps:
            return None
        if here is None:
            raise RuntimeError("a forced text cannot be read")
        if here.loose:
            explorer.tighten(here, self._detour(explorer))
        return len(tokens) + here.distance

    def place(self, state: int) -> str:
        """The name of the rule that a state belongs to, with its pointer."""
        rule = self.grammar.rules[int(self.tables.states[state, RULE])]
        return place(rule.name, rule.pointer)

