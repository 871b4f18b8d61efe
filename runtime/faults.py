"""Errors across the engine's border: `Failed` messages, and the errors they were."""

from __future__ import annotations

from ..grammars.errors import BudgetTooSmall, ConstraintError, EspalierError
from .errors import EngineFault
from .messages import Failed


def describe(error: BaseException) -> EspalierError:
    """An error of this project as it is; any other as an EngineFault that names the true cause."""
    if isinstance(error, EspalierError):
        return error
    return EngineFault(f"{type(error).__name__}: {error}", where="engine")


def pack(request: int, error: BaseException) -> Failed:
    told = describe(error)
    details = (told.needed, told.given) if isinstance(told, BudgetTooSmall) else ()
    keyword = told.keyword if isinstance(told, ConstraintError) else ""
    return Failed(request, type(told).__name__, told.message, told.where, told.fix, details, keyword)


def unpack(failed: Failed) -> EspalierError:
    """The error that `pack` was given: same class, message, keyword, place and way out. An unknown class is an
    EngineFault."""
    if failed.error == BudgetTooSmall.__name__ and len(failed.details) == 2:
        return BudgetTooSmall(*failed.details)
    kind = _classes(EspalierError).get(failed.error, EngineFault)
    if issubclass(kind, ConstraintError):
        return kind(failed.message, keyword=failed.keyword, where=failed.where, fix=failed.fix)
    return kind(failed.message, where=failed.where, fix=failed.fix)


def _classes(root: type[EspalierError]) -> dict[str, type[EspalierError]]:
    """Name -> class, for the root and everything derived from it."""
    found = {root.__name__: root}
    for kind in root.__subclasses__():
        found |= _classes(kind)
    return found
