from __future__ import annotations

from espalier.kernels.sampling import bracket, launch, nucleus, scan, settle

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
    more = "*fp32: pivots above value_list; *i64: state; *i32: marks token_list; i32: capacity"
    for logits in ("fp32", "bf16"):
        types = _types(scan.scan, logits, more)
        for raw, pivots in ((True, 0), (False, 0), (True, launch.TUNED.pivots)):
            cases.append(Case(
                f"scan {logits} raw={raw} pivots={pivots}", scan.scan, types,
                {"RAW": raw, "PIVOTS": pivots, "BLOCK_TILES": launch.TUNED.block_tiles}, ALIGNED, wide=("logits",),
            ))
    lists = "*i32: raw_row tile_list token_list token_out nan_out; *fp32: value_list logprob_out; i32: capacity"
    for listed, flats in ((False, False), (True, False), (True, True)):
        cases.append(Case(
            f"settle lists={listed} flat={flats}", settle.settle, _types(settle.settle, "fp32", lists),
            {**SHAPE, "CHUNK": launch.CHUNK, "FLAT": flats, "LISTS": listed, "RAW": True}, (*ALIGNED, "capacity"),
            warps=launch.TUNED.list_warps if listed else launch.TUNED.settle_warps,
        ))
    pivots, tuned = {"PIVOTS": launch.TUNED.pivots}, launch.TUNED
    for name, kernel, constants, warps in (
        ("guess", bracket.guess, {"SAMPLE": tuned.sample, "BUCKETS": launch.BUCKETS}, tuned.guess_warps),
        ("bracket", bracket.bracket, {"TILES": 2048, "LONG": tuned.long}, tuned.bracket_warps),
        ("collect", nucleus.collect, {"BLOCK_TILES": tuned.block_tiles}, tuned.collect_warps),
        ("finish", nucleus.finish, {"TILES": 2048, "CHUNK": launch.CHUNK, "WAYS": tuned.ways}, tuned.finish_warps),
    ):
        cases.append(Case(
            f"flat {name}", kernel, _types(kernel, "fp32", more), {**constants, **pivots}, (*ALIGNED, "capacity"),
            warps, wide=("logits",) if name == "collect" else (),
        ))
    return tuple(cases)


CASES = _cases()
