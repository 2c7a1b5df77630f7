"""The work of a comparison grows with what is compared, not with its square."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuprof.comparison.compare import compare
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.session import KernelProfile
from tests.compare_builders import kernel, run
from tests.steps import steps

Made = Callable[[int, int], KernelProfile]


def letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:06}")


CASES: dict[str, Made] = {
    "shapes of a kernel": lambda side, number: kernel("gemm", grid=(2 * number + 1 + side, 1, 1)),
    "names one character apart": lambda side, number: kernel(f"kernel{'xy'[side]}{letters(number)}"),
    "names that share words": lambda side, number: kernel(
        f"{letters(number % 7)}_{letters(number % 11)}_{letters(number)}_{side}x"
    ),
    "numbers of a compiler": lambda side, number: kernel(f"triton_poi_fused_{2 * number + side}"),
    "parts of a name": lambda side, number: kernel(f"{letters(number)}{'_tail' if side else ''}"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_twice_as_much_takes_at_most_little_more_than_twice_the_steps(case: str) -> None:
    def counted(number: int) -> int:
        sides = [run(*(CASES[case](side, place) for place in range(number))) for side in (0, 1)]
        kernel_key.cache_clear()
        return steps(lambda: compare(sides[:1], sides[1:], "0"))

    # Of fewer names each may be compared with each.
    small, large = counted(250), counted(500)
    assert large < 2.3 * small


def test_the_longest_lists_of_like_names_are_not_compared_with_one_another() -> None:
    """Where thousands share all their words, comparing each with each would be millions of pairs."""
    names = [[f"scan_blocks_{letters(number)}{side}" for number in range(400)] for side in "xy"]
    sides = [run(*(kernel(name, grid=(1, 1, 1)) for name in side)) for side in names]
    assert steps(lambda: compare(sides[:1], sides[1:], "0")) < 2_000 * 400
