"""Writes the automata of the formats: python -m scripts.format_tables"""

from __future__ import annotations

from espalier.grammars.format_tables import PATH, tables
from espalier.grammars.formats import TABLES, compile_table
from espalier.grammars.limits import Limits, Meter


def main() -> None:
    PATH.write_bytes(tables({name: compile_table(name, Meter(Limits(seconds=60.0))) for name in TABLES}))
    print(f"{PATH.name}: {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
