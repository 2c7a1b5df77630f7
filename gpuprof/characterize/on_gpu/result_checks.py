"""Whether a kernel has done what it was meant to do: its sums, its walk, its copy, its product, checked by the host."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuprof.characterize.on_gpu.launcher import Ready
from gpuprof.characterize.probes.tiles import Tile, wrong
from gpuprof.characterize.record.gpu import Memory

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

CORRECT = "correct"
_ITERATIONS = 3
_UNUSED = 0x7FEDCBA9
"""What `keep` of probe.cuh stores for one value in 2^32."""
_OPERAND = re.compile(r"\b(u32|u64|s32|f32|f16x2)\b")
_ADDED = 3
"""Whole numbers are added in turn: 1 and 2. Floats 1 and -1, which cancel out."""


def verify(probe: Probe, ready: Ready) -> str | None:
    """Run the kernel once and return "correct", what is wrong, or None where the host cannot tell.

    Raises what launching raises.
    """
    if probe.tile is not None:
        return _tile(ready, probe.tile.resolved(ready.configuration.names()))
    check = _CHECKS.get(probe.check or "")
    return check(ready) if check is not None else None


def _chain(ready: Ready) -> str | None:
    """Follow the chase from the address where the first walker began, and come to where it ended."""
    walk = ready.buffers["walk"].memory
    chases = [filled.chase for filled in ready.buffers.values() if filled.chase is not None]
    steps = ready.kernel.work.amount("result", ready.configuration.names())
    if not chases or steps is None:
        return None
    ready.launch(_ITERATIONS)
    first, last = _words(ready, walk, 2)
    end = chases[0].after(first, steps * _ITERATIONS)
    if end is None:
        return f"the walk began at {first:#x}, which is not a node of the chase"
    return CORRECT if end == last else f"{steps * _ITERATIONS} steps led to {last:#x}, not to {end:#x}"


def _sum(ready: Ready) -> str | None:
    """Add up all cells: nothing that was added may be lost."""
    import numpy as np

    cells = ready.buffers["cells"].memory
    kind = next(
        (operand[1] for value in ready.configuration.assignment.values() if (operand := _OPERAND.search(value))), ""
    )
    each = ready.kernel.work.amount("op", ready.configuration.names())
    if not kind or each is None:
        return None
    ready.gpu.zero(cells)
    ready.launch(_ITERATIONS)
    content = ready.gpu.read(cells, cells.bytes)
    if kind.startswith("f"):
        total = float(np.frombuffer(content, dtype=np.float32 if kind == "f32" else np.float16).sum(dtype=np.float64))
        return CORRECT if total == 0 else f"the sum of what was added is {total:g}, not 0"
    bits = int(kind[1:])
    whole = int(np.frombuffer(content, dtype=f"u{bits // 8}").sum(dtype=np.uint64)) % 2**bits
    expected = ready.shape.grid * ready.shape.block * _ITERATIONS * each // 2 * _ADDED % 2**bits
    return CORRECT if whole == expected else f"the sum of what was added is {whole}, not {expected}"


def _pattern(ready: Ready) -> str | None:
    """Ask the kernel, which compares what it copied with its source: nobody may have found a wrong word."""
    import numpy as np

    ready.gpu.zero(ready.sink)
    ready.launch(_ITERATIONS)
    counts = np.frombuffer(ready.gpu.read(ready.sink, 4 * ready.shape.grid * ready.shape.block), dtype=np.uint32)
    bad = counts[(counts != 0) & (counts != _UNUSED)]
    return CORRECT if not len(bad) else f"{len(bad)} threads read values that were copied wrongly"


def _tile(ready: Ready, tile: Tile) -> str | None:
    """Let the kernel store the product of one iteration, over something that is no number, and multiply on the host."""
    a, b, d = (ready.buffers[name].memory for name in ("a", "b", "d"))
    ready.gpu.repeat(d, b"\xff")
    ready.launch(1)
    try:
        return wrong(tile, *(ready.gpu.read(memory, memory.bytes) for memory in (a, b, d))) or CORRECT
    except ValueError:
        return None


def _words(ready: Ready, memory: Memory, count: int) -> tuple[int, ...]:
    import numpy as np

    return tuple(int(word) for word in np.frombuffer(ready.gpu.read(memory, 8 * count), dtype=np.uint64))


_CHECKS: dict[str, Callable[[Ready], str | None]] = {"chain": _chain, "sum": _sum, "pattern": _pattern}
