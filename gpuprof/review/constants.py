"""What is known of constant bank 0 in a review: the launch configuration and arguments that are given."""

from __future__ import annotations

from gpuprof.review.code import KernelCode
from gpuprof.sass.dataflow.launch_constants import PlacedArgument, known_constants


def constants_of(code: KernelCode) -> dict[int, int]:
    """Return the known bytes of constant bank 0 by their offset."""
    kernel, shape = code.kernel.kernel, code.kernel.shape
    given = (
        PlacedArgument(place.offset, place.size_bytes, shape.arguments.get(place.ordinal))
        for place in kernel.parameters
    )
    return known_constants(
        code.kernel.target,
        shape.block or kernel.required_block,
        shape.grid,
        given,
        begin=kernel.parameters_offset,
        aligned=lambda _: (),
    )
