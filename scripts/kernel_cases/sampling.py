from __future__ import annotations

from espalier.kernels import next_row
from espalier.kernels.sampling import bracket, check, edit, nucleus, scan, settle, top
from espalier.kernels.sampling.work import BUCKETS, CHUNK, LIST_REGISTERS, TUNED

from .case import Case, typed

ALIGNED = ("vocabulary", "words")
COLUMNS = "*i32: row mask target top_k flat cut; *fp32: temperature top_p min_p; *i64: seed position"
TILES = "*fp32: tile_best tile_mass raw; *i64: tile_kept"
SIZES = "i32: vocabulary words tiles blocks"
SHAPE = {"TILES": 2048, "BLOCKS": 32}


def _types(kernel: object, logits: str, *more: str) -> dict[str, str]:
    known = typed("; ".join((f"*{logits}: logits raw_logits", "*i32: masks", COLUMNS, TILES, SIZES, *more)))
    return {name: known[name] for name in kernel.arg_names if name in known}  # type: ignore[attr-defined]


def _cases() -> tuple[Case, ...]:
    cases = []
    more = "*fp32: pivots above value_list; *i64: state; *i32: listed token_list; i32: capacity"
    for logits in ("fp32", "bf16"):
        types = _types(scan.scan, logits, more)
        for raw, pivots in ((True, 0), (False, 0), (True, TUNED.pivots)):
            cases.append(Case(
                f"scan {logits} raw={raw} pivots={pivots}", scan.scan, types,
                {"RAW": raw, "PIVOTS": pivots, "BLOCK_TILES": TUNED.block_tiles, "OVERLAP": True}, ALIGNED,
                wide=("logits",),
            ))
    lists = "*i32: raw_row tile_list token_list token_out nan_out error; *fp32: value_list logprob_out; *i64: kept"
    lists += "; i32: capacity"
    for listed, flats in ((False, False), (True, False), (True, True)):
        cases.append(Case(
            f"settle lists={listed} flat={flats}", settle.settle, _types(settle.settle, "fp32", lists),
            {**SHAPE, "CHUNK": CHUNK, "FLAT": flats, "LISTS": listed, "RAW": True, "PROCESSED": flats,
             "CHECKED": flats, "OVERLAP": True}, (*ALIGNED, "capacity"),
            warps=TUNED.list_warps if listed else TUNED.settle_warps,
        ))
    for processed in (False, True):
        cases.append(Case(
            f"top processed={processed}", top.top,
            _types(top.top, "fp32", lists, "*i32: chosen; *fp32: choice_out; i32: count"),
            {**SHAPE, "CHUNK": CHUNK, "PROCESSED": processed}, (*ALIGNED, "capacity"), warps=TUNED.list_warps,
            options={"maxnreg": LIST_REGISTERS},
        ))
    cases.append(Case("check", check.check, _types(
        check.check, "fp32", "*i32: error safe; *fp32: safe_temperature; i32: n rows mask_rows"), {"CHUNK": CHUNK}))
    chosen, tuned = {"PIVOTS": TUNED.pivots, "OVERLAP": True}, TUNED
    for name, kernel, constants, warps in (
        ("guess", bracket.guess, {"SAMPLE": tuned.sample, "BUCKETS": BUCKETS}, tuned.guess_warps),
        ("bracket", bracket.bracket, {"TILES": 2048, "LONG": tuned.long}, tuned.bracket_warps),
        ("collect", nucleus.collect, {"BLOCK_TILES": tuned.block_tiles}, tuned.collect_warps),
        ("finish", nucleus.finish, {"TILES": 2048, "CHUNK": CHUNK, "LIST": tuned.list, "WAYS": tuned.ways},
         tuned.finish_warps),
    ):
        cases.append(Case(
            f"flat {name}", kernel, _types(kernel, "fp32", more), {**constants, **chosen}, (*ALIGNED, "capacity"),
            warps, wide=("logits",) if name == "collect" else (),
        ))
    cases.append(Case("next_row", next_row._next_row, typed(
        "*i32: row token keeps begin edge_token edge_row out error; i32: rows words"),
        {"CHECKED": True, "BLOCK": next_row.BLOCK}, warps=1))
    cases.append(Case("edit", edit._edit, typed(
        "*fp32: logits edited bias repetition frequency presence; *i32: row begin token count seen error; "
        "i32: vocabulary"), {"CHECKED": True, "BLOCK": edit.BLOCK, "EACH": 128}, ("vocabulary",)))
    return tuple(cases)


CASES = _cases()
