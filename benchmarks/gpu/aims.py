"""Prints which of the aims that the micro-kernels were written for a measured file of a GPU reaches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpuprof.characterize.sheet.measured import Measured, MeasuredValue


class Aim(NamedTuple):
    """The best value of a probe should be at least so much: in its unit, or as a fraction of its limit.

    `product` names the only product that the aim is for; `value` begins the names of the values that count.
    """

    value: str
    least: float
    of_limit: bool = True
    product: str | None = None


AIMS = (
    Aim("bandwidth/dram-read ", 0.94 * 4.8e12, of_limit=False, product="h200-sxm"),
    Aim("bandwidth/dram-read ", 0.94 * 3.35e12, of_limit=False, product="h100-sxm"),
    Aim("bandwidth/l2-read ", 9.7e12, of_limit=False, product="h200-sxm"),
    Aim("bandwidth/l2-read ", 6.9e12, of_limit=False, product="h100-sxm"),
    Aim("bandwidth/shared-read WIDTH=16", 0.98),
    Aim("bandwidth/l1-read WIDTH=16", 0.98),
    Aim("tensor/wgmma-bf16-f32 ", 0.97),
    Aim("instruction/ffma-throughput", 0.99),
)
"""What others have published for Hopper, or a little less: 4.8 and 3.35 TB/s are the ratings of H200 and H100 SXM, of
which RRZE gpu-benches reads 95 % on an H100 PCIe and 97 % on a GH200; 6.9 TB/s of L2 is that of an H100 PCIe there,
which has fewer SMs; 128 B/clk/SM of shared memory and L1; the tensor cores' rate at the clock that they ran at."""


def main(arguments: Sequence[str]) -> int:
    """Hold a file against the aims; return 0 whatever it reaches: the lines are the result."""
    from gpuprof.characterize.sheet.measured import load_measured

    lines = list(reached(load_measured(Path(arguments[0]))))
    print(f"{sum(good for good, _ in lines)} of {len(lines)} aims are reached")
    for _, line in lines:
        print(f"  {line}")
    return 0


def reached(measured: Measured) -> list[tuple[bool, str]]:
    """Return for each aim of this GPU whether it is reached, with the best value and what was aimed at."""
    return [_held(measured, aim) for aim in AIMS if aim.product in {None, measured.spec}]


def _held(measured: Measured, aim: Aim) -> tuple[bool, str]:
    ones = [(name, value) for name, value in measured.values.items() if name.startswith(aim.value) and value.usable]
    known = [(number, name, value) for name, value in ones if (number := _number(value, aim)) is not None]
    wanted = _written(aim.least, aim, None)
    if not known:
        return False, f"{aim.value.strip()}: not measured, at least {wanted} is aimed at"
    number, name, value = max(known)
    return number >= aim.least, f"{name}: {_written(number, aim, value)}, {value.verdict}; aimed at {wanted}"


def _number(value: MeasuredValue, aim: Aim) -> float | None:
    return value.of_limit if aim.of_limit else value.value


def _written(number: float, aim: Aim, value: MeasuredValue | None) -> str:
    from gpuprof.units import format_si

    if aim.of_limit:
        return f"{100 * number:.1f} % of its limit"
    return format_si(number, value.unit if value is not None else "B/s", 4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
