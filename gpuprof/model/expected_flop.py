"""Checks counters of a matrix product: the shapes of its operands give its FLOP."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuprof.hardware.specs import SCALAR_PATHS, TENSOR_PATHS
from gpuprof.hardware.trust import NONE
from gpuprof.model.product_names import multiplies_on_scalar_pipes
from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Work
from gpuprof.model.torch_ranges import ProductSize, innermost_operator, product_size
from gpuprof.units import format_si

_LEAST, _MOST = 0.95, 1.05
_SCALAR = frozenset(path for path in SCALAR_PATHS if "int" not in path)
_TENSOR = frozenset(path for path in TENSOR_PATHS if "int" not in path) | {"tensor.int8"}
"""Libraries emulate FP64 with integers of 8 bits."""
_DEPTH = 64
_ANY_SIDE = 512
_SIDES = re.compile(r"(\d{2,3})x(\d{2,3})")
_IN_CLUSTERS = re.compile(r"nvjet|cutlass3x|cga|sm_?(?:9|1\d)\d")
"""Kernels whose clusters pad further than the tile in the name, which may have the shape of an instruction as well."""


def contradiction(kernel: KernelProfile, work: Sequence[Work]) -> Missing | None:
    """Return why counted work cannot be that of a kernel whose operator is a matrix product; None if it can.

    Below 95 % of the FLOP of the shapes is too little, above 105 % of the FLOP of whole tiles too much. Kernels that
    share a product, attention and convolutions have no `exact` FLOP: none is judged.
    """
    asked, size = kernel.operator_flop, product_size(kernel.ranges)
    if asked is None or not asked.exact or size is None or 0 in size:
        return None
    counted = {row.path: row.flop for row in work if row.flop is not None and row.path in _SCALAR | _TENSOR}
    flop = sum(counted.values())
    # A sum of K products has K - 1 additions.
    least = _LEAST * asked.flop * (1 - 0.5 / size.depth)
    most = _MOST * asked.flop * padding(kernel.demangled, size)
    is_too_little = flop < least and _counts_all(kernel.demangled, asked.path, counted)
    if not is_too_little and _surely_done(asked.path, work) <= most:
        return None
    why = (
        f"the profiled launch of its name and grid did {format_si(flop, 'FLOP')}, and "
        f"{innermost_operator(kernel.ranges)} takes {format_si(asked.flop, 'FLOP')}: it is another one"
    )
    return Missing("counters", why, "profile it again with --kernel")


def padding(name: str, size: ProductSize) -> float:
    """Return how many times the FLOP of a product's shapes its kernel does at most, because it computes whole tiles.

    Rows and columns are filled up to the tile in the kernel's name, whichever side is rows. If there is none, to 512:
    no known tile of a block or cluster has a longer side. Sums go to the next multiple of 64, even where they are one:
    no step of a known kernel is longer, and the rest is for the epilogue and the parts of a split sum.
    """
    sides = [] if _IN_CLUSTERS.search(name) else [(int(one), int(other)) for one, other in _SIDES.findall(name)]
    one, other = (max(side) for side in zip(*sides, strict=True)) if sides else (_ANY_SIDE, _ANY_SIDE)
    area = max(
        _filled(size.rows, one) * _filled(size.columns, other), _filled(size.rows, other) * _filled(size.columns, one)
    )
    depth = (size.depth // _DEPTH + 1) * _DEPTH
    return area * depth / (size.rows * size.columns * size.depth)


def _filled(length: int, step: int) -> int:
    return -(-length // step) * step


def _counts_all(name: str, asked: str, counted: Mapping[str, float]) -> bool:
    """Return whether the counted paths have all work of a kernel: some counters miss some matrix instructions."""
    on_tensor_cores = any(counted[path] for path in _TENSOR & counted.keys())
    on_scalar_pipes = asked in _SCALAR and multiplies_on_scalar_pipes(name)
    return counted.keys() >= _SCALAR and (on_tensor_cores or on_scalar_pipes)


def _surely_done(asked: str, work: Sequence[Work]) -> float:
    """Return the FLOP that a kernel surely did at least.

    Matrix instructions may be counted too often, unless a certificate says that they are not. For one product of FP32
    or FP64 tensor cores may do several, with TF32 three: these are left out.
    """
    on_scalar_pipes = [row.flop or 0.0 for row in work if row.path in _SCALAR and row.basis != "estimated"]
    on_tensor_cores = [
        row.flop or 0.0
        for row in work
        if row.path == asked and asked in _TENSOR - {"tensor.tf32"} and row.certificate not in (None, NONE)
    ]
    return sum(on_scalar_pipes) + sum(on_tensor_cores)
