from __future__ import annotations

from typing import Any

from espalier.kernels import copy_slots, gated_silu, gather_rows, rms_norm, rope_write

from .case import Case, typed

BF16 = typed("*bf16: x delta weight out gate_up qkv k v q q_norm k_norm like; *fp32: cos sin;"
             "*i64: positions index layers; *i32: rows tables pair; i32: width ffn page heads run count;"
             "fp32: eps offset")
HEADS = {"Q_HEADS": 32, "KV_HEADS": 8, "DIM": 128, "HALF": 64, "HEADS": 8, "BLOCK": 64, "REST": 1}


def _case(name: str, kernel: Any, constants: dict[str, Any], warps: int, wide: tuple[str, ...]) -> Case:
    types = {argument: BF16[argument] for argument in kernel.arg_names if argument in BF16}
    return Case(name, kernel, types, constants, ("width", "ffn", "page", "run", "count"), warps, wide=wide)


CASES = (
    _case("rms_norm", rms_norm._rms_norm, {"ADD": True, "BLOCK": 4096}, 8, ("x",)),
    _case("gated_silu", gated_silu._gated, {"GELU": False, "BLOCK": gated_silu.BLOCK}, 8, ("gate_up",)),
    _case("gather_rows", gather_rows._gather, {"BLOCK": gather_rows.BLOCK}, 4, ("x",)),
    _case("copy_slots", copy_slots._copy, {"BLOCK": copy_slots.BLOCK}, 4, ()),
    _case("rope_write", rope_write._rope_write, {**HEADS, "INTERLEAVED": False, "NORM": False}, 4, ("qkv",)),
    _case("rope_write norm", rope_write._rope_write, {**HEADS, "INTERLEAVED": False, "NORM": True}, 4, ("qkv",)),
    _case("rope_write interleaved", rope_write._rope_write, {**HEADS, "INTERLEAVED": True, "NORM": False}, 4, ()),
)
