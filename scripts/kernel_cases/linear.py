from __future__ import annotations

from espalier.kernels.exact_linear import BLOCK, FEW, GROUP, MANY, SOME, Tile, _fold, _product

from .case import Case, typed


def _case(name: str, tile: Tile, chunks: int, split: bool) -> Case:
    x, weight = (f"tensordesc<bf16[{extent},{tile.depth}]>" for extent in (tile.tokens, tile.rows))
    types = typed(f"{x}: x; {weight}: weight; *bf16: out; *fp32: parts; i32: tokens n k")
    constants = {"bias": None, "TOKENS": tile.tokens, "ROWS": tile.rows, "DEPTH": tile.depth, "CHUNK": 4096,
                 "CHUNKS": chunks, "SPLIT": split, "TURNED": tile.turned, "BIAS": False, "GROUP": GROUP,
                 "OVERLAP": split}
    return Case(f"exact linear {name}", _product, types, constants, ("n", "k"), tile.warps, tile.stages,
                wgmma=True, serial=split and tile.rows == 128)


LARGE = tuple(tile for tile, _ in MANY)
CASES = (
    *(_case(f"{tile.tokens} x {tile.rows}, {shape}", tile, chunks, split) for tile in (*FEW, *SOME, *LARGE[1:])
      for shape, chunks, split in (("whole", 1, False), ("split", 2, True))),
    *(_case(f"{tile.tokens} x {tile.rows}, folded", tile, 2, False) for tile in LARGE[:-1]),
    Case("exact linear fold", _fold, typed("*fp32: parts; *bf16: out; i32: count n"),
         {"bias": None, "CHUNKS": 2, "BIAS": False, "BLOCK": BLOCK, "OVERLAP": True}, ("count", "n")),
)
