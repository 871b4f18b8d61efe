"""The root of all errors of the project, and the errors that a constraint can raise.

    EspalierError                 what went wrong, where, and the way out
    |-- ConstraintError           a constraint was refused; nothing was generated
    |   |-- UnsupportedKeyword    the keyword is real, but not enforced here: refused, never ignored
    |   |-- InvalidConstraint     the text is not a schema, regex or choice list
    |   |-- Unsatisfiable         no text can fit
    |   |-- ConstraintTooLarge    a stated limit of size, depth, states or time was passed
    |   |-- BudgetTooSmall        the token budget is below the shortest answer
    |   `-- MissingByte           the constraint or text needs a byte that no token has
    |-- (runtime.errors)          models, weights, requests, engine
    `-- (frontend.errors)         programs and branches
"""

from __future__ import annotations


class EspalierError(Exception):
    """Base of every error that a caller can cause or must handle.

    message: what is wrong. where: a JSON pointer, a line and column, a field or a file; "" when there is no place.
    fix: the way out, one sentence; "" when there is none.
    """

    code = "error"

    def __init__(self, message: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        place = f" (at {self.where})" if self.where else ""
        way_out = f" {self.fix}" if self.fix else ""
        return f"{self.message}{place}.{way_out}" if way_out else f"{self.message}{place}"


class ConstraintError(EspalierError):
    """A constraint was refused before the first token. `keyword` names the guilty part, `where` its place."""

    code = "invalid_constraint"

    def __init__(self, message: str, *, keyword: str = "", where: str = "", fix: str = "") -> None:
        super().__init__(message, where=where, fix=fix)
        self.keyword = keyword


class UnsupportedKeyword(ConstraintError):
    """A keyword or construct of the standard that is not enforced yet."""

    code = "unsupported_keyword"


class InvalidConstraint(ConstraintError):
    """The text is not well-formed in its language."""


class Unsatisfiable(ConstraintError):
    """No text fits the constraint."""

    code = "unsatisfiable_constraint"


class ConstraintTooLarge(ConstraintError):
    """A stated budget was passed; the message names it."""

    code = "constraint_too_large"


class BudgetTooSmall(ConstraintError):
    """`needed` tokens are enough to close the shortest answer; the budget is `given`."""

    code = "budget_too_small"

    def __init__(self, needed: int, given: int) -> None:
        super().__init__(
            f"a budget of {given} tokens is below the shortest answer of this constraint, which may need {needed}",
            keyword="max_tokens", where="max_tokens", fix=f"Raise max_tokens to at least {needed}.",
        )
        self.needed = needed
        self.given = given


class MissingByte(ConstraintError):
    """Text or constraint needs a byte that no token of the vocabulary has."""

    code = "missing_byte"
