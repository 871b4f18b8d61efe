"""Writes the automata of the formats: python -m scripts.format_tables"""

from __future__ import annotations

from espalier.grammars.format_tables import PATH, tables
from espalier.grammars.formats import ENFORCED, compile_format
from espalier.grammars.limits import Limits, Meter


def main() -> None:
    PATH.write_bytes(tables({name: compile_format(name, Meter(Limits(seconds=60.0))) for name in ENFORCED}))
    print(f"{PATH.name}: {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
