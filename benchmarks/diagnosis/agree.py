"""Runs both kernels of a case on the host's processor and tells whether they compute the same."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.diagnosis.case import LAUNCH_GATE, Case, Room, Sizes
from benchmarks.diagnosis.contents import Array, agree, contents, unwritten
from benchmarks.diagnosis.host_run import compile_case, run

Results = dict[str, Array]
"""Buffers by name."""
ROOM = Room(2, 2)
"""The GPU that launch shapes are made for: small, as the sizes are."""
_INTEGERS = {"u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "i32": ctypes.c_int32}
_FLOATS = {"f32": ctypes.c_float, "f64": ctypes.c_double}


def disagreements(case: Case) -> tuple[str, ...]:
    """Return what differs between the kernels' results; nothing where they agree. Raises GpuprofError.

    Each kernel also runs with the order of its threads reversed: a result that changes then lacks a barrier.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        library = compile_case(case.source, Path(folder))
        results = {entry: _results(case, library, entry) for entry in case.entries}
        reversed_ = {entry: _results(case, library, entry, backwards=True) for entry in case.entries}
    return (*_differences(case, results), *_order_matters(case, results, reversed_))


def _results(case: Case, library: Path, entry: str, *, backwards: bool = False) -> Results:
    """Launch one kernel with fresh buffers; return them as it left them."""
    launch = case.launches[entry]
    shape = launch.shape(case.small, ROOM)
    held = {name: contents(name, buffer, case.small) for name, buffer in case.buffers.items()}
    names = [argument.name or "" for argument in case.arguments]
    for number in range(launch.times):
        arguments = list(_arguments(case, held, number))
        run(library, entry, shape.grid, shape.block, shape.shared_bytes, arguments, names=names, backwards=backwards)
    return held


def _order_matters(case: Case, results: Mapping[str, Results], backwards: Mapping[str, Results]) -> Iterator[str]:
    for name, buffer in case.buffers.items():
        for entry in case.entries:
            forth, back = results[entry][name], backwards[entry][name]
            if buffer.result is not None and agree(forth, back, buffer.type, buffer.result) is not None:
                yield f"{entry} leaves another {name} if its threads run in another order"


def _arguments(case: Case, held: Results, number: int) -> Iterator[object]:
    for kind, name in case.arguments:
        assert name is not None
        yield held[name] if kind == "buffer" else argument(case.small, kind, name, number)


def argument(sizes: Sizes, kind: str, name: str, number: int) -> object:
    """Return what a kernel is given for a scalar, as its type in C."""
    value = scalar(sizes, kind, name, number)
    return _FLOATS[kind](value) if kind in _FLOATS else _INTEGERS[kind](int(value))


def scalar(sizes: Sizes, kind: str, name: str, number: int) -> int | float:
    """Return the value of an argument: a size, the number of the launch, or what stands there."""
    value = number if name == LAUNCH_GATE else sizes.get(name, name)
    return float(value) if kind in _FLOATS else int(value)


def _differences(case: Case, results: Mapping[str, Results]) -> Iterator[str]:
    """Compare each result with the other kernel's; one that neither wrote proves nothing."""
    for name, buffer in case.buffers.items():
        if buffer.result is None:
            continue
        before = contents(name, buffer, case.small)
        for entry, held in results.items():
            if unwritten(before, held[name]):
                yield f"{entry} leaves {name} as it was"
        first, last = results[case.entries[0]][name], results[case.entries[-1]][name]
        apart = agree(first, last, buffer.type, buffer.result)
        if apart is not None:
            yield f"{name} differs by {apart:.2g} of its largest value, more than {buffer.result:g}"
