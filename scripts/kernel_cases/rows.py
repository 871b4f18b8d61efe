from __future__ import annotations

from typing import Any

from espalier.kernels import copy_slots, gated_silu, gather_rows, park_pages, rms_norm, rope_write

from .case import Case, typed

BF16 = typed("*bf16: x delta weight out gate_up qkv k v q q_norm k_norm; *fp32: cos sin k_scale v_scale;"
             "*i64: positions index addresses; *i32: rows tables copies error staging;"
             "i32: width ffn page pages context tokens words run stride; fp32: eps offset")
SHAPE = {"Q_HEADS": 32, "KV_HEADS": 8, "DIM": 128, "HALF": 64, "HEADS": 8, "BLOCK": 64, "REST": 1,
         "INTERLEAVED": False, "NORM": False, "LIMIT": 0.0, "CHECKED": False}


def _case(name: str, kernel: Any, constants: dict[str, Any], warps: int, wide: tuple[str, ...], **types: str) -> Case:
    known = {**BF16, **types}
    return Case(name, kernel, {argument: known[argument] for argument in kernel.arg_names if argument in known},
                constants, ("width", "ffn", "page", "words", "run", "stride", "offset"), warps, wide=wide)


def _rope(name: str, wide: tuple[str, ...] = ("qkv",), kv: str = "bf16", **changes: Any) -> Case:
    constants = {**SHAPE, **changes}
    return _case(f"rope_write {name}", rope_write._rope_write, constants, 4, wide, k=f"*{kv}", v=f"*{kv}")


def _page(gather: bool) -> Case:
    return _case(f"park_pages gather={gather}", park_pages._page, {"GATHER": gather, "BLOCK": park_pages.BLOCK}, 4,
                 () if gather else ("staging",), pages="*i32", offset="i32")


CASES = (
    _case("rms_norm", rms_norm._rms_norm, {"ADD": True, "BLOCK": 4096}, 8, ("x",)),
    _case("gated_silu", gated_silu._gated, {"GELU": False, "BLOCKS": 7, "BLOCK": gated_silu.BLOCK}, 8, ("gate_up",)),
    _case("gather_rows", gather_rows._gather, {"BLOCKS": 1, "CHECKED": False, "BLOCK": gather_rows.BLOCK}, 4, ("x",)),
    _case("copy_slots", copy_slots._copy, {"CHECKED": False, "BLOCK": copy_slots.BLOCK}, 4, ()),
    _page(True), _page(False),
    _rope("halves"), _rope("norm", NORM=True), _rope("interleaved", INTERLEAVED=True),
    _rope("e4m3", kv="fp8e4nv", LIMIT=448.0), _rope("int8", kv="i8", LIMIT=127.0), _rope("checked", CHECKED=True),
)
