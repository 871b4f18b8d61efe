from __future__ import annotations

from espalier.kernels.sampling import flat, launch, scan, settle

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
    for logits in ("fp32", "bf16"):
        types = _types(scan.scan, logits)
        for raw in (True, False):
            cases.append(Case(
                f"scan {logits} raw={raw}", scan.scan, types,
                {"RAW": raw, "BLOCK_TILES": launch.TUNED.block_tiles}, ALIGNED, wide=("logits",),
            ))
    lists = "*i32: raw_row tile_list token_list token_out nan_out; *fp32: value_list logprob_out; i32: capacity"
    for listed, flats in ((False, False), (True, False), (True, True)):
        cases.append(Case(
            f"settle lists={listed} flat={flats}", settle.settle, _types(settle.settle, "fp32", lists),
            {**SHAPE, "CHUNK": launch.CHUNK, "FLAT": flats, "LISTS": listed, "RAW": True}, (*ALIGNED, "capacity"),
            warps=launch.TUNED.list_warps if listed else launch.TUNED.settle_warps,
        ))
    more = "*fp32: best best_out best_of value_list; *i64: state part; *i32: pivots listed token_list; i32: capacity"
    pivots, block = {"PIVOTS": launch.TUNED.pivots}, {"BLOCK_TILES": launch.TUNED.block_tiles}
    for name, kernel, constants, warps in (
        ("start", flat.start, {"TILES": 2048, "SAMPLE": launch.SAMPLE, **pivots}, 8),
        ("narrow", flat.narrow, {**block, **pivots}, 4), ("collect", flat.collect, block, 4),
        ("decide", flat.decide, {"BLOCKS": 32, "LAST": False, **pivots}, 1),
        ("finish", flat.finish, {"CHUNK": launch.CHUNK}, 4),
    ):
        types = _types(kernel, "fp32", more)
        cases.append(Case(
            f"flat {name}", kernel, types, constants, (*ALIGNED, "capacity"), warps,
            wide=("logits",) if name in ("narrow", "collect") else (),
        ))
    return tuple(cases)


CASES = _cases()
