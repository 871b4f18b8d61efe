"""Writes the tables of docs/grammars.md that say what is supported, from what the compiler itself reads.

    python -m scripts.support_tables

Keywords: grammars/schemas/support.py. Formats: grammars/schemas/formats.py. Measured shares: the verdicts by name in
tests/data, which `bench.grammars.coverage` writes. The rest of the page is written by hand.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from espalier.grammars.schemas import formats, support

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "grammars.md"
_VERDICTS = ROOT / "tests" / "data"
_ARTIFICIAL = ("Synthesized", "Handwritten")
_FITS = ("right", "empty")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def enforced() -> str:
    rows = [f"| {_quoted(one.names)} | {one.remark + ' ' if one.remark else ''}|" for one in support.ENFORCED]
    return "\n".join(["| keyword | |", "|---|---|", *rows])


def ignored() -> str:
    return "\n".join(["| keyword |", "|---|", *(f"| {_quoted(names)} |" for names in support.ANNOTATIONS)])


def format_names() -> str:
    return textwrap.fill(f"Enforced: {_quoted(sorted(formats.STANDARD))}.", 120, break_on_hyphens=False)


def _verdicts(name: str) -> list[str]:
    """Of a folder of schemas, those that were made up left out."""
    found = json.loads((_VERDICTS / f"verdicts_{name}.json").read_text(encoding="utf-8"))
    return [verdict for case, verdict in found.items() if not case.startswith(_ARTIFICIAL)]


def _shares(name: str) -> list[str]:
    default, harness = _verdicts(name), _verdicts(f"{name}_harness")

    def share(verdicts: list[str], kinds: Iterable[str]) -> str:
        return f"{100 * sum(verdict in kinds for verdict in verdicts) / len(verdicts):.1f} %"

    return [share(default, {*default} - {"refused"}), share(default, (*_FITS, "order")), share(default, _FITS),
            share(harness, _FITS), str(sum(verdict == "lax" for verdict in (*default, *harness)))]


_WORDS = (
    "compiled, or rightly refused because no value fits", "every instance right, keys in the order of the schema",
    "every instance right, keys in the order of the instance", 'the same with `order="any", spelling="any"`',
    "schemas of which an invalid instance was accepted",
)


def measured() -> str:
    real, suite = len(_verdicts("schemas")), len(_verdicts("testsuite"))
    head = f"| | {real} real schemas (a sample of MaskBench) | the standard's suite for 2020-12, {suite} groups |"
    cells = zip(_WORDS, _shares("schemas"), _shares("testsuite"), strict=True)
    return "\n".join([head, "|---|---|---|", *(f"| {' | '.join(row)} |" for row in cells)])


TABLES = {"enforced": enforced, "annotations": ignored, "formats": format_names, "measured": measured}


def _filled(table: str, found: re.Match[str]) -> str:
    return f"{found[1]}{table}{found[2]}"


def written(page: str) -> str:
    """The page with its tables written anew. Raises ValueError when a table has lost its place."""
    for name, table in TABLES.items():
        place = re.compile(rf"(<!-- {name}: [^\n]* -->\n).*?(\n<!-- end -->)", re.DOTALL)
        page, count = place.subn(partial(_filled, table()), page)
        if count != 1:
            raise ValueError(f"the page must have one place for the table {name!r}, not {count}")
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
