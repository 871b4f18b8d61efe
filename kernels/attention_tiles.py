"""The tiles of paged attention: how many packed rows and slots one holds, by bin, mode and dtype of keys and values."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Tile:
    """m: packed rows, n: slots of a tile. stages: tiles of keys and values on their way."""

    m: int
    n: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """Of each bin. `Cut.narrow` and `Cut.wide` of the plan are their m. In place of narrow, of the same m and n, where
    there are more than CROWD programs: crowd for pieces, so that more of them run at once, each with fewer tiles on its
    way; whole for rows that are not cut, of which the longest must not be slow."""

    narrow: Tile
    wide: Tile
    crowd: Tile | None = None
    whole: Tile | None = None

    def narrow_for(self, programs: int, pieces: bool) -> Tile:
        chosen = None if programs <= CROWD else self.crowd if pieces else self.whole
        return chosen or self.narrow

    def fixed(self, programs: int, pieces: bool) -> Tiles:
        """For steps that are planned on the device, where `work` knows bounds: the tile for about so many programs of
        the narrow bin (items * KV heads), whatever a plan comes to. pieces: whether rows are cut."""
        return replace(self, narrow=self.narrow_for(programs, pieces), crowd=None, whole=None)


# Three programs of a narrow tile on each of 132 multiprocessors.
CROWD = 396
# Swept on an H200, bench/results/kernels_attention_sweep.json and kernels_attention_exact.json. EXACT: every tile is 64
# slots, the rest changes no bit.
FAST = Tiles(Tile(16, 64, 2, 5), Tile(128, 128, 8, 5), crowd=Tile(16, 64, 2, 4))
FP8 = Tiles(Tile(16, 32, 1, 5), Tile(128, 64, 8, 5))
EXACT = Tiles(Tile(16, 64, 2, 5), Tile(128, 64, 8, 5), crowd=Tile(16, 64, 2, 4), whole=Tile(16, 64, 4, 5))
# Heads of more than 128 dimensions: the fastest whose values stay in registers (scripts/kernel_report). Two tiles that
# spill are faster: exact ones of 128 rows by half, e4m3 ones of 64 x 32 by a fifth (docs/log.md).
LARGE = Tiles(Tile(16, 64, 4, 3), Tile(128, 64, 8, 2))
EXACT_LARGE = Tiles(Tile(16, 64, 4, 3), Tile(64, 64, 8, 2))
FP8_LARGE = Tiles(Tile(16, 64, 4, 3), Tile(64, 16, 4, 8))
# float32 has no matrix unit of its own precision and takes twice the shared memory: for comparisons, not for speed.
WIDE_FLOATS = Tiles(Tile(16, 32, 4, 2), Tile(32, 32, 4, 2))


def tiles_for(head_dim: int, *, exact: bool = False, coded: bool = False, wide_floats: bool = False) -> Tiles:
    """What `attend` should be given, and a plan made for. coded: keys and values of 8 bits. wide_floats: of float32."""
    if wide_floats:
        return WIDE_FLOATS
    if head_dim > 128:
        return EXACT_LARGE if exact else FP8_LARGE if coded else LARGE
    return EXACT if exact else FP8 if coded else FAST
