from __future__ import annotations

from espalier.kernels import check_step, plan_items

from .case import Case, typed

TYPES = typed("*i32: rows segments items n_items part_begin error kept; i32: n_rows n_segments tokens room parts "
              "most_narrow most_wide least most window page")


def _case(name: str, rows: int, **changes: int) -> Case:
    segments = 2 * rows
    constants = {"G": 4, "NARROW": 16, "WIDE": 128, "EXACT": False, "WINDOW": False, "CHECKED": False, "ROWS": rows,
                 "LOG_ROWS": rows.bit_length() - 1, "N": segments, "LOG_N": segments.bit_length() - 1,
                 "BLOCK": plan_items.BLOCK}
    return Case(f"plan {name}", plan_items._plan, TYPES, {**constants, **changes}, warps=plan_items.WARPS,
                wide=("rows", "segments"),
                options={"maxnreg": plan_items.REGISTERS} if changes.get("CHECKED") else {})


CASES = (
    _case("256 rows", 256), _case("64 rows", 64), _case("256 rows, exact", 256, EXACT=True),
    _case("256 rows, window", 256, WINDOW=True), _case("256 rows, checked", 256, CHECKED=True),
    _case("64 rows, checked", 64, CHECKED=True), _case("64 rows, 71 heads a KV head", 64, G=71),
    Case("check of a step", check_step._check_step,
         typed("*i32: rows segments block_table q_slot error; i32: tokens n_segments slots width pages"),
         {"PAGE_SLOTS": 16, "BLOCK": check_step.BLOCK}, warps=4),
)
