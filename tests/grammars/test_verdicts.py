"""Verdicts on the standard's own suite and on real schemas do not change unseen.

    pytest tests/grammars/test_verdicts.py --schemas FOLDER

The data are not part of this repository; the expected verdicts are, by name. After a change that is meant:
`python -m bench.grammars.coverage FOLDER --verdicts tests/data/verdicts_<name of the folder>.json`,
and with `--profile harness` to the one that ends in `_harness`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.grammars.coverage import PROFILES, judge

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("name", ["testsuite", "schemas", "testsuite_harness", "schemas_harness"])
def test_nothing_invalid_was_ever_accepted(name: str) -> None:
    verdicts = json.loads((DATA / f"verdicts_{name}.json").read_text(encoding="utf-8"))
    assert [case for case, verdict in verdicts.items() if verdict == "lax"] == []


@pytest.mark.parametrize(("name", "known"), [("testsuite", ["format_hostname_001"]), ("schemas", [])])
def test_the_harness_profile_refuses_nothing_valid_but_what_is_known(name: str, known: list[str]) -> None:
    verdicts = json.loads((DATA / f"verdicts_{name}_harness.json").read_text(encoding="utf-8"))
    assert [case for case, verdict in verdicts.items() if verdict in ("strict", "order")] == known


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(PROFILES))
def test_every_verdict_is_the_expected_one(request: pytest.FixtureRequest, profile: str) -> None:
    folders = request.config.getoption("--schemas", default=[])
    if not folders:
        pytest.skip("needs --schemas FOLDER")
    for folder in map(Path, folders):
        name = folder.name if profile == "default" else f"{folder.name}_{profile}"
        expected = json.loads((DATA / f"verdicts_{name}.json").read_text(encoding="utf-8"))
        found = {path.stem: judge(path.stem, json.loads(path.read_text(encoding="utf-8")), profile).kind
                 for path in sorted(folder.glob("*.json"))}
        assert {name: kind for name, kind in found.items() if expected.get(name) != kind} == {}
