"""How long, and in how much memory, two large sides are compared: `python -m benchmarks.compare_scale [CASE…]`.

Each case is compared in a process of its own. Making the sessions does not count; reading files is not part of it.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator

from gpuprof.comparison.compare import Compared, compare
from gpuprof.model.session import KernelProfile
from tests.compare_builders import kernel, run

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def main(cases: list[str]) -> None:
    """Compare the cases, or one as a child that prints what it took."""
    if cases[:1] == ["--one"]:
        print(json.dumps(_measured(cases[1])))
        return
    print(f"{'case':34} {'kernels':>9} {'launches':>9} {'CPU s':>8} {'MB':>6}  pairs")
    for name in cases or list(CASES):
        done = subprocess.run([sys.executable, "-m", __spec__.name, "--one", name], check=True, capture_output=True)
        told = json.loads(done.stdout)
        print(
            f"{name:34} {told['kernels']:9,} {told['launches']:9,} {told['seconds']:8.2f} {told['mb']:6.0f}  "
            + ", ".join(f"{number:,} {match}" for match, number in told["pairs"].items())
        )


def _measured(name: str) -> dict[str, object]:
    """Compare once for the time, and once more for the memory, which takes longer to watch."""
    base, new = (run(*CASES[name](side)) for side in range(2))
    gc.disable()  # as the command does
    began = time.process_time()
    compared = compare([base], [new], "0")
    seconds = time.process_time() - began
    pairs: dict[str, int] = {}
    for pair in compared.pairs:
        pairs[pair.match] = pairs.get(pair.match, 0) + 1
    side = compared.comparison.new
    del compared
    return {
        "seconds": seconds,
        "mb": _memory(lambda: compare([base], [new], "0")) / 1e6,
        "kernels": side.kernels,
        "launches": side.launches,
        "pairs": pairs,
    }


def _memory(compared: Callable[[], Compared]) -> int:
    tracemalloc.start()
    compared()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _groups(side: int) -> Iterator[KernelProfile]:
    """Yield 100 kernels of 1,000 launches each, all durations kept, with counters."""
    for number in range(100):
        durations = [1e-5 + 1e-9 * ((7 * launch + 13 * number + side) % 101) for launch in range(1000)]
        counts = {f"opcode.{name}": 1000.0 + number for name in ("FFMA", "LDG", "STG", "IADD3")}
        yield kernel(f"kernel_{_letters(number)}", durations, counts={"instructions": 1e6, **counts})


def _entries(side: int) -> Iterator[KernelProfile]:
    """Yield 20,000 single launches of 200 kernels, as reports of ncu have them."""
    for number in range(20_000):
        yield kernel(f"void layer<{number % 200}>(float*)", [1e-5 + 1e-9 * (number % 7 + side)], flop={"fp32": 1e9})


def _shapes(side: int) -> Iterator[KernelProfile]:
    """Yield 5,000 shapes of one kernel; the second side has other ones."""
    for number in range(5_000):
        yield kernel("gemm", [1e-5], grid=(2 * number + 1 + side, 1, 1))


def _one_character(side: int) -> Iterator[KernelProfile]:
    """Yield 20,000 kernels whose names differ in one character, and by one from those of the other side."""
    for number in range(20_000):
        yield kernel(f"kernel{'xy'[side]}{_letters(number)}", [1e-5])


def _words(side: int) -> Iterator[KernelProfile]:
    """Yield 20,000 renamed kernels that share words with many others."""
    for number in range(20_000):
        name = "_".join(_letters(1000 + (number * step) % 997) for step in (1, 7, 31, 101))
        yield kernel(f"{name}{'' if side else '_old'}", [1e-5], grid=(1 + number % 50, 1, 1))


def _long_names(side: int) -> Iterator[KernelProfile]:
    """Yield 50 kernels whose names have 15,000 characters."""
    for number in range(50):
        arguments = ", ".join(f"ns::type_{_letters(part)}<{part}>" for part in range(650))
        yield kernel(f"void f{_letters(number)}<{arguments}, {side}>(float*)", [1e-5])


def _letters(number: int) -> str:
    text = ""
    for _ in range(4):
        number, place = divmod(number, 26)
        text += _LETTERS[place]
    return text


CASES: dict[str, Callable[[int], Iterator[KernelProfile]]] = {
    "100,000 launches in 100 groups": _groups,
    "20,000 single launches": _entries,
    "5,000 shapes of a kernel": _shapes,
    "20,000 names, one character apart": _one_character,
    "20,000 renamed kernels": _words,
    "50 names of 15,000 characters": _long_names,
}


if __name__ == "__main__":
    main(sys.argv[1:])
