from __future__ import annotations

from typing import Any

from espalier.kernels.attention_tiles import CROWD, EXACT, EXACT_LARGE, FAST, FP8, FP8_LARGE, LARGE, Tile
from espalier.kernels.merge_parts import _merge
from espalier.kernels.paged_attention import _attend

from .case import Case, typed

INTS = "*i32: items n_items part_begin rows segments block_table q_slot pos draft_bits; i32: table_width window"
FLOATS = "*fp32: part_o part_ml; fp32: scale cap"
SHAPE = {"G": 4, "HKV": 8, "PAGE": 16, "DIM": 128, "WIDTH": 128, "CHUNK": 0, "WINDOW": False, "CAP": False,
         "SINKS": False, "DRAFT": False, "SCALED": False, "PAIRED": False, "OVERLAP": False}


def _case(name: str, tile: Tile, kv: str = "bf16", **changes: Any) -> Case:
    absent = [arg for arg, there in (("k_scale", kv != "bf16"), ("v_scale", kv != "bf16"),
                                     ("sinks", changes.get("SINKS", False))) if not there]
    types = typed(f"*bf16: q out; *{kv}: k v; *fp32: k_scale v_scale sinks; {INTS}; {FLOATS}")
    constants = {**SHAPE, "M": tile.m, "N": tile.n, **dict.fromkeys(absent), **changes}
    return Case(
        f"attention {name}", _attend, {arg: kind for arg, kind in types.items() if arg not in absent}, constants,
        (), tile.warps, tile.stages, wgmma=tile.m >= 64,
    )


def _cases() -> tuple[Case, ...]:
    pairs = {"DIM": 64, "WIDTH": 64, "SCALED": True, "PAIRED": True}
    exact: dict[str, Any] = {"CHUNK": 512}
    large: dict[str, Any] = {"DIM": 256, "WIDTH": 256}
    large_pairs = {**pairs, "DIM": 128, "WIDTH": 128}
    merge = {"HEADS": 32, "DIM": 128, "WIDTH": 128, "AHEAD": 16, "EACH": 1, "OVERLAP": False}
    return (
        _case("narrow", FAST.narrow), _case("wide", FAST.wide),
        _case("narrow, window", FAST.narrow, WINDOW=True), _case("narrow, draft", FAST.narrow, DRAFT=True),
        _case("narrow, cap and sinks", FAST.narrow, CAP=True, SINKS=True),
        _case("narrow, head of 80", FAST.narrow, DIM=80),
        _case("narrow, head of 64", FAST.narrow, DIM=64, WIDTH=64),
        _case("narrow, pairs of fp8", FP8.narrow, "i16", **pairs),
        _case("wide, pairs of fp8", FP8.wide, "i16", **pairs),
        _case("exact narrow", EXACT.narrow, **exact), _case("exact wide", EXACT.wide, **exact),
        _case("exact crowd", EXACT.narrow_for(CROWD + 1, True), **exact),
        _case("exact whole", EXACT.narrow_for(CROWD + 1, False), **exact),
        _case("narrow, head of 256", LARGE.narrow, **large), _case("wide, head of 256", LARGE.wide, **large),
        _case("exact narrow, head of 256", EXACT_LARGE.narrow, **large, **exact),
        _case("exact wide, head of 256", EXACT_LARGE.wide, **large, **exact),
        _case("narrow, pairs of fp8, head of 256", FP8_LARGE.narrow, "i16", **large_pairs),
        _case("wide, pairs of fp8, head of 256", FP8_LARGE.wide, "i16", **large_pairs),
        _case("crowd", FAST.narrow_for(CROWD + 1, True)),
        Case("attention merge", _merge, typed("*fp32: part_o part_ml; *i32: part_begin; *bf16: out"), merge, warps=1,
             wide=("part_o",)),
    )


CASES = _cases()
