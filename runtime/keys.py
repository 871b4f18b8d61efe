"""Typed values of what a model's file says of itself, by key."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import WeightsError


class Keys:
    """metadata: key -> value. Every reading raises WeightsError, which names the key, when it is missing or of another
    type."""

    metadata: Mapping[str, object]

    def place(self, key: str) -> str:
        """How errors call a key."""
        return key

    def value(self, key: str) -> object:
        if key not in self.metadata:
            raise WeightsError("the metadata lacks a key", where=self.place(key))
        return self.metadata[key]

    def text(self, key: str) -> str:
        value = self.value(key)
        if not isinstance(value, str):
            raise WeightsError("a string is expected", where=self.place(key))
        return value

    def integer(self, key: str, low: int = 0, high: int = 2**31 - 1) -> int:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise WeightsError("an integer is expected", where=self.place(key))
        if not low <= value <= high:
            raise WeightsError(f"{str(value)[:80]} is outside of {low}..{high}", where=self.place(key))
        return value

    def number(self, key: str) -> float:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WeightsError("a number is expected", where=self.place(key))
        try:
            return float(value)
        except OverflowError as error:
            raise WeightsError("the number is too large", where=self.place(key)) from error

    def flag(self, key: str) -> bool:
        value = self.value(key)
        if not isinstance(value, bool):
            raise WeightsError("a boolean is expected", where=self.place(key))
        return value
