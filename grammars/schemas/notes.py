"""What a schema says that constrains nothing, as notes for the caller, each with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Notes:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], None] = {}  # what, where ("": the text is whole), why

    def add(self, text: str) -> None:
        self._found.setdefault((text, "", ""))

    def at(self, what: str, pointer: str, why: str) -> None:
        self._found.setdefault((what, pointer, why))

    def texts(self, alike: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """All notes, also of the places that were never looked at. alike: by place, others whose schemas say the
        same."""
        queue = list(self._found)
        listed = dict.fromkeys(queue)
        for what, pointer, why in queue if alike else ():  # grows while it runs
            for first in _above(pointer):
                for other in alike.get(first, ()):
                    note = (what, other + pointer[len(first):], why)
                    if note not in listed:
                        listed[note] = None
                        queue.append(note)
        return tuple([f"{what} at {pointer}{why}" if pointer else what for what, pointer, why in listed])


def _above(pointer: str) -> list[str]:
    """A pointer, and those of all that it lies in."""
    found = [pointer]
    while "/" in pointer:
        pointer = pointer[:pointer.rindex("/")]
        found.append(pointer)
    return found
