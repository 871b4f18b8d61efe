"""Writes the automata of the formats: python -m scripts.format_tables"""

from __future__ import annotations

from espalier.grammars.limits import Limits, Meter
from espalier.grammars.schemas.format_tables import NAMES_PATH, PATH, tables
from espalier.grammars.schemas.formats import TABLES, compile_table

from .idn_hosts import idn_hosts, idn_mail


def main() -> None:
    meter = Meter(Limits(seconds=60.0))
    hosts = idn_hosts(meter)
    PATH.write_bytes(tables({name: compile_table(name, meter) for name in TABLES}))
    NAMES_PATH.write_bytes(tables({"idn-hostname": hosts, "idn-email": idn_mail(hosts, meter)}))
    print(f"{PATH.name}: {PATH.stat().st_size} bytes, {NAMES_PATH.name}: {NAMES_PATH.stat().st_size}")


if __name__ == "__main__":
    main()
