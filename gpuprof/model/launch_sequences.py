"""What each stream of a timeline did in its order, by kernel: the input of causes that only the order shows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.model.recorded import Dim3

_POINTWISE = re.compile(r"elementwise_kernel|multi_tensor_apply_kernel|fused_dropout_kernel|masked_fill_kernel")
_NO_POINTWISE = re.compile(r"FillFunctor|LpNorm|distribution_|[iI]ndex|gather|scatter|Adam|LAMB|S(?:GD|gd)")


class LaunchInSequence(NamedTuple):
    """A launch of a kernel, or what else a stream did between two of them.

    `kernel` is the id of the kernel in the session, None for anything else. `operator` is that of the framework with
    the shapes of its first tensors, "" and none if they are not known. `ranges` were open when it was launched.
    `in_sdpa`: PyTorch's scaled_dot_product_attention launched it because it chose no fused kernel.
    """

    kernel: int | None
    name: str
    operator: str
    shapes: tuple[tuple[int, ...], ...]
    grid: Dim3 | None
    block: Dim3 | None
    duration_s: float
    ranges: tuple[str, ...]
    in_sdpa: bool

    @property
    def function(self) -> str:
        """The operator, or the kernel's name if no operator of a library launched it."""
        return self.operator if "::" in self.operator else self.name

    @property
    def elements(self) -> int:
        """The elements of the largest tensor."""
        return max(map(math.prod, self.shapes), default=0)

    @property
    def is_pointwise(self) -> bool:
        """Whether it computes each element of its results from the elements at the same places of its inputs."""
        return self.kernel is not None and _is_pointwise(self.name)


class LaunchSequence(NamedTuple):
    """What a stream did in a step, in order; not `complete` if there may have been more."""

    launches: Sequence[LaunchInSequence]
    complete: bool


@lru_cache(maxsize=4096)
def _is_pointwise(kernel: str) -> bool:
    return _POINTWISE.search(kernel) is not None and _NO_POINTWISE.search(kernel) is None
