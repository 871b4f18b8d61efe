"""The face of the grammar engine towards the runtime: `Vocabulary`, `MaskTable`, `CompiledGrammar`, `Matcher`.

PLACEHOLDER OF THE CONTRACT: replaced by the engine; the signatures below stay.

class Vocabulary:
    def __init__(self, tokens: Sequence[bytes], *, special: Collection[int], stop: Collection[int],
                 encode: Callable[[str], list[int]], size: int | None = None) -> None
        tokens[i]: the bytes of id i (b"" for special and unused ids); size: width of the logits (>= len(tokens)).
        stop: the end ids (eos, eot, eom). encode: the model's own tokenizer on plain text, no specials added.
    classmethod bytes_only() -> Vocabulary          # 256 one-byte tokens + one stop id 256; for checks and tests

class MaskTable:
    def __init__(self, vocabulary_size: int, byte_budget: int = 256 << 20) -> None
    array: np.ndarray                # int32 [capacity, ceil(V/32)]; bit t % 32 of word t // 32; padding bits 0; row 0 all ones
    def pin / unpin ...              # a row id stays valid until the matcher that returned it moves on (accept/rollback/close)

class CompiledGrammar:               # a Grammar bound to a Vocabulary; shared by all matchers of that constraint
    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, table: MaskTable, limits: Limits = Limits()) -> None
    def matcher(self, *, forcing: bool = True, closing: bool = True) -> Matcher   # False: overlays of law 5 / law 4 off
    min_tokens: int                  # U(start)
    notes: tuple[str, ...]

class Matcher:                       # one per request
    def row(self, budget: int | None) -> int        # mask row for the next token; budget: tokens left, this one included
    def accept(self, token: int) -> None            # raises TokenRejected (ValueError) naming the token
    def allows(self, token: int) -> bool
    def rollback(self, n: int) -> None
    def copy(self) -> Matcher
    def forced(self, limit: int) -> list[int]       # forced tokens from here, not yet accepted; [] when there is a choice
    def min_tokens(self) -> int                     # upper bound of tokens to the end, from here (0 when it may end)
    def may_end(self) -> bool                       # the text so far is complete; the stop ids are allowed
    def must_end(self) -> bool                      # complete, and nothing but a stop id is allowed
    def explain(self) -> str                        # 'expected one of ...'
    def close(self) -> None                         # gives its pins back
"""
