"""Tolerances: how far a count may differ without a change of the code, each with its measurements.

Measured on kernels of equal machine code that were profiled twice with equal launch configuration and data, in public
reports of others: four of gpu_workshop (V100, `MW_Baseline` and `MW_DivToMult`, two processes), one CUTLASS GEMM (A100)
and one elementwise kernel of PyTorch (H800), each launched twice in a process. "Largest" is the largest difference of
the six. They are few: if a count must not move by chance, the thresholds are several times the largest difference.

| count | largest | allowed |
|---|---|---|
| instructions, by opcode too; thread instructions; requests; FLOP; bank conflicts | 0, of up to 776,170,865 | 0.1 % |
| sectors of global memory at L1 | 0.10 %: 30 of 29,851 | 0.3 % + 32 sectors |
| wavefronts of shared memory | 0.06 %: 21 of 35,642 | 0.3 % + 32 |
| sectors and bytes between L1 and L2 | 0.005 % | 0.3 % + 32 sectors |
| bytes at L1 | 0.065 %: 960 B of 1.5 MB | 0.3 % + 1 KiB |
| DRAM bytes | 0.06 % of gigabytes; 359 kB of 21 MB; 182 kB of 1.4 MB | 0.5 % + 512 KiB |
| registers, shared memory, theoretical occupancy | 0, in 19 kernels | 0 |
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple


class Tolerance(NamedTuple):
    """The allowed difference of two values: a fraction of the larger one, and an amount."""

    fraction: float
    amount: float = 0.0

    def band(self, largest: float, launches: float = 1.0) -> float:
        """Return the allowed difference of values up to this one, in their unit; the amount is per launch of a sum."""
        return self.fraction * largest + self.amount * launches


EXACT = Tolerance(0.001)
"""Counts of executed work. No pair differed by one instruction; 0.1 % is room for retries of
atomics and for warps that spin at a barrier, a fifth of the smallest regression that must be
found."""
SECTORS = Tolerance(0.003, 32.0)
"""Sectors and wavefronts: L1 splits requests depending on those in flight, so single ones move."""
LOCAL = Tolerance(0.003)
"""Sectors of local memory. There is no amount: code that spills nothing has none, and the first one is a change."""
CACHE_BYTES = Tolerance(0.003, 1024.0)
"""Bytes at L1 and L2: 32 sectors."""
DRAM = Tolerance(0.005, 512.0 * 1024.0)
"""Bytes at DRAM: dirty lines in L2 at the end of a launch are written later, and another context may evict lines."""
ESTIMATE = 0.01
"""Added if one side has a percentage of a peak instead of a count: the two differed by up to 0.8 %,
in four SGEMM kernels of an A10G that were profiled both ways."""
RESOURCE = Tolerance(0.0)
"""Resources of a launch follow from the code and the launch configuration alone."""

_BY_NAME = {
    "dram-bytes": DRAM,
    "l2-bytes": CACHE_BYTES,
    "l1-bytes": CACHE_BYTES,
    "global-load-sectors": SECTORS,
    "global-store-sectors": SECTORS,
    "l2-sectors": SECTORS,
    "shared-wavefronts": SECTORS,
    "local-load-sectors": LOCAL,
    "local-store-sectors": LOCAL,
    "spills": LOCAL,
    "registers": RESOURCE,
    "shared-memory": RESOURCE,
    "occupancy": RESOURCE,
    "launches": RESOURCE,
}

LEAST_CHANCE = 1e-4
"""The chance that launches of the same code, with all orders equally likely, separate into a side
with all lower and one with all higher values. If it is larger, there is no verdict on work that
depends on data."""
MARGIN = 0.5
"""The least distance between the ranges of such sides, in widths of the wider one. The chance above
is valid for any distribution; the margin is for launches of a run that are more alike than those of
another run."""

_MANY = 200
"""More launches count as this many: the chance is far below, unless a side has only one."""


def tolerance_of(name: str) -> Tolerance:
    """Return the tolerance of a count; counts of executed work are exact."""
    return _BY_NAME.get(name, EXACT)


def can_distinguish(base_launches: int, new_launches: int) -> bool:
    """Return whether so many launches can separate data-dependent work: nine a side, not eight."""
    return _chance(min(base_launches, _MANY), min(new_launches, _MANY)) <= LEAST_CHANCE


@lru_cache(maxsize=1024)
def _chance(base_launches: int, new_launches: int) -> float:
    """Return the chance that all values of one side are above all of the other."""
    return 2 / comb(base_launches + new_launches, base_launches)
