"""Runs CUDA kernels on the host's processor: compiles a case with cuda_on_host.hpp and calls its kernels on arrays."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError

HEADER = Path(__file__).with_name("cuda_on_host.hpp")
CASES = Path(__file__).resolve().parents[2] / "microkernels" / "bottlenecks"
MOST_THREADS = 1024
MOST_SHARED_BYTES = 227 * 1024
MOST_BLOCKS = (2**31 - 1, 65535, 65535)

_OPTIONS = (
    "-std=c++17", "-O1", "-g1", "-gdwarf-4", "-fPIC", "-fvisibility=hidden", "-w", "-fno-strict-aliasing", "-fwrapv",
    "-fno-math-errno", "-ffp-contract=off",
)  # fmt: skip
_CHECKS = ("-fsanitize=bounds,alignment", "-fsanitize-undefined-trap-on-error")
"""An index beyond an array's bounds and a misaligned address become traps."""
_OVERLOADED = ("min", "max", "abs", "atomicAdd", "atomicMin", "atomicMax", "atomicExch", "atomicCAS")
_BEGINNING = "#pragma gpuprof_source"
_PARENTHESES = r"\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_DECORATION = rf"(?:__attribute__|alignas){_PARENTHESES}"
_SHARED = re.compile(
    rf"(?:(?:\b(?:static|extern)\b|{_DECORATION})\s*)*\b__shared__\b\s*(?:(?:extern\b|{_DECORATION})\s*)*"
)
_DYNAMIC = re.compile(r"([^;{}()=]+?)\s*\b(\w+)\s*\[\s*\]((?:\s*\[[^\]]*\])*)\s*;")
_KERNEL = re.compile(r"\b__global__\b")
_PTX = re.compile(r'\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__)?\s*\(\s*"\s*[^"\s]')
_MARKER = re.compile(r'^# (\d+) "([^"]*)"', re.MULTILINE)
_ONE_AT_A_TIME = threading.Lock()


class NotForTheHost(InputError):
    """A source that does not compile for the host, or has something in it that the host does not run."""


class KernelFailed(GpuprofError):
    """A kernel did what it must not do: which thread, what, and in which line."""


def compile_case(source: Path, folder: Path) -> Path:
    """Compile a `.cu` file for this processor; return the library in `folder`, the same for the same text."""
    compiler = _compiler()
    text = _prepared(source, compiler)
    mark = hashlib.sha256((text + HEADER.read_text(encoding="utf-8") + repr(_OPTIONS + _CHECKS)).encode()).hexdigest()
    library = folder / f"{source.stem}-{mark[:16]}.so"
    if not library.exists():
        file = folder / f"{source.stem}-{mark[:16]}-{os.getpid()}.ii"
        file.write_text(text, encoding="utf-8")
        _make([compiler, *_OPTIONS, *_CHECKS, "-shared", str(file), str(_runtime(folder, compiler))], library, source)
        file.unlink()
    return library


def run(
    library: Path,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    arguments: Sequence[object],
    *,
    names: Sequence[str] = (),
    cluster: tuple[int, int, int] | None = None,
    backwards: bool = False,
    seconds: float = 60.0,
) -> None:
    """Run a kernel; arrays are written in place, other arguments are ctypes or numpy scalars. Raises KernelFailed.

    `names` are those of the arguments, for messages. `backwards` lets the threads of a block run from the last to the
    first between two barriers: a result that changes with it lacks a barrier.
    """
    _check_shape(grid, block, shared_bytes, cluster)
    held = _library(library)
    taken, given = held.signature(entry), [_kind(argument) for argument in arguments]
    if taken != given:
        raise UsageError(
            f"{entry} takes ({', '.join(taken)}), but is given ({', '.join(given)})",
            "p is an array; i, u and f are whole numbers, unsigned ones and floats, with their bytes",
        )
    told = [names[place] if place < len(names) else f"argument {place + 1}" for place in range(len(arguments))]
    with held.lent(arguments, told) as cells:
        problem = held.launch(entry, _Launch(grid, block, shared_bytes, backwards, seconds), cells)
        if problem is not None:
            raise KernelFailed(f"{entry}: {problem}")


def _compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None:
        raise EnvironmentProblem("there is no g++, which the host's check compiles with", "install g++ 9 or newer")
    return compiler


def _prepared(source: Path, compiler: str) -> str:
    """Return the source after the preprocessor, with what is CUDA's alone rewritten and a way in for each kernel."""
    # In a namespace of its own, so that no name of the C library is in its way; what sources overload is drawn in.
    names = "".join(f"using ::{name}; " for name in _OVERLOADED)
    wrapped = f'#include "{HEADER}"\n{_BEGINNING}\nnamespace {{ {names}\n#include "{source.resolve()}"\n}}\n'
    folders = [f"-I{source.resolve().parent}", f"-I{CASES}"]
    command = [compiler, "-E", "-x", "c++", *_OPTIONS, "-DGPUPROF_HOST", *folders, "-"]
    done = subprocess.run(command, input=wrapped, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise NotForTheHost(_first_errors(source, done.stderr))
    header, _, text = done.stdout.partition(_BEGINNING)
    _refuse(source, text)
    entries = _entries(text)
    if not entries:
        raise NotForTheHost(f"{source.name} has no kernel: no __global__ function that is not a template")
    return "".join((header, _with_shared(_KERNEL.sub("", text)), *map(_way_in, entries)))


def _refuse(source: Path, text: str) -> None:
    """Raise for what the host cannot run, with the line."""
    if (match := _PTX.search(text)) is not None:
        where, hint = _place(text, match.start()), "give the function a version for the host (#ifdef GPUPROF_HOST)"
        raise NotForTheHost(f"{where}: the host does not run PTX", hint)
    if (match := re.search(r"\b__cluster_dims__\b", text)) is not None:
        raise NotForTheHost(f"{_place(text, match.start())}: the host does not run clusters of blocks")
    if "<<<" in text:
        raise NotForTheHost(f"{source.name}: the host does not run launches from within a source (<<<)")


def _place(text: str, offset: int) -> str:
    """Return file and line of a place in what the preprocessor wrote."""
    markers = list(_MARKER.finditer(text, 0, offset))
    if not markers:
        return "the source"
    last = markers[-1]
    lines_below = text.count("\n", last.end(), offset) - 1
    return f"{Path(last[2]).name}:{int(last[1]) + lines_below}"


def _entries(text: str) -> list[str]:
    """Return the names of the kernels that are no templates, in their order."""
    names: dict[str, None] = {}
    for kernel in _KERNEL.finditer(text):
        before = re.split(r"[;{}]", text[: kernel.start()])[-1]
        after = re.sub(_DECORATION, " ", text[kernel.end() : kernel.end() + 2000])
        name = re.match(r"[^;{}()]*?\b(\w+)\s*\(", after)
        if name is not None and not re.search(r"\btemplate\b", before):
            names[name[1]] = None
    return list(names)


def _with_shared(text: str) -> str:
    """Rewrite `__shared__`: `extern __shared__ T name[]` is a pointer, everything else `thread_local`."""
    parts, done = [], 0
    for declaration in _SHARED.finditer(text):
        parts.append(text[done : declaration.start()])
        done = declaration.end()
        dynamic = _DYNAMIC.match(text, done) if re.search(r"\bextern\b", declaration[0]) else None
        if dynamic is not None:
            parts.append(_pointer(re.sub(_DECORATION, " ", dynamic[1]).strip(), dynamic[2], dynamic[3].strip()))
            done = dynamic.end()
        else:
            # Alignments stand in front, where C++ wants them.
            aligned = " ".join(re.findall(_DECORATION, declaration[0]))
            parts.append(f"{aligned} thread_local __attribute__((aligned(16))) ")
        parts.append("\n" * text.count("\n", declaration.start(), done))
    return "".join((*parts, text[done:]))


def _pointer(kind: str, name: str, rows: str) -> str:
    if rows:
        return f"{kind} (*const {name}){rows} = ({kind} (*){rows})::on_host::dynamic_shared;"
    return f"{kind} *const {name} = ({kind} *)::on_host::dynamic_shared;"


def _way_in(name: str) -> str:
    export = 'extern "C" __attribute__((visibility("default"))) void'
    return (
        f"{export} gpuprof_call_{name}(void **arguments) {{ ::on_host::call(&{name}, arguments); }}\n"
        f"{export} gpuprof_signature_{name}(char *text) {{ ::on_host::signature(&{name}, text); }}\n"
    )


def _runtime(folder: Path, compiler: str) -> Path:
    """Compile the fibers, once for a folder."""
    mark = hashlib.sha256(HEADER.read_bytes() + repr(_OPTIONS).encode()).hexdigest()[:16]
    library = folder / f"cuda_on_host-{mark}.o"
    if not library.exists():
        _make([compiler, *_OPTIONS, "-DGPUPROF_HOST_RUNTIME", "-c", "-x", "c++", str(HEADER)], library, HEADER)
    return library


def _make(command: list[str], result: Path, source: Path) -> None:
    """Run the compiler; its result takes its name when it is whole."""
    unfinished = result.with_name(f"{result.name}-{os.getpid()}")
    command = [*command, "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise NotForTheHost(_first_errors(source, done.stderr))
    unfinished.replace(result)


def _first_errors(source: Path, log: str, most: int = 4) -> str:
    lines = [line.replace(f"{source.resolve().parent}{os.sep}", "") for line in log.splitlines()]
    errors = [line for line in lines if "error" in line.lower() or "undefined reference" in line] or lines
    return "\n  ".join([f"{source.name} does not compile for the host:", *errors[:most]])


def _check_shape(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, cluster: tuple[int, int, int] | None
) -> None:
    if cluster is not None and math.prod(cluster) > 1:
        raise NotForTheHost(f"the host does not run clusters of blocks, here {cluster}")
    if not 1 <= math.prod(block) <= MOST_THREADS or min(block) < 1:
        raise UsageError(f"a block of {block} threads: 1 to {MOST_THREADS} are possible")
    if any(not 1 <= size <= most for size, most in zip(grid, MOST_BLOCKS, strict=True)):
        raise UsageError(f"a grid of {grid} blocks: 1 to {MOST_BLOCKS} are possible")
    if not 0 <= shared_bytes <= MOST_SHARED_BYTES:
        raise UsageError(f"{shared_bytes} bytes of dynamic shared memory: 0 to {MOST_SHARED_BYTES} are possible")


def _kind(argument: object) -> str:
    """Return `p` for an array, else kind and bytes of a scalar, as the library writes them."""
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous:
            raise UsageError("an array must lie in memory without gaps (numpy.ascontiguousarray)")
        return "p"
    if isinstance(argument, ctypes.Structure):
        return f"s{ctypes.sizeof(argument)}"
    dtype = np.dtype(type(argument)) if isinstance(argument, (np.generic, ctypes._SimpleCData)) else None
    if dtype is None or dtype.kind not in "iuf":
        raise UsageError(f"{argument!r} is no argument: arrays, ctypes scalars and numpy scalars are")
    return f"{dtype.kind}{dtype.itemsize}"


class _Launch(ctypes.Structure):
    """`Launch` of cuda_on_host.hpp."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("backwards", ctypes.c_uint32),
        ("seconds", ctypes.c_double),
    )


class _Failure(ctypes.Structure):
    """`Failure` of cuda_on_host.hpp."""

    _fields_ = (("place", ctypes.c_uint64), ("text", ctypes.c_char * 2000))


class _Library:
    """A compiled case."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._calls = ctypes.CDLL(str(path))
        self._calls.gpuprof_buffer.restype = ctypes.c_void_p
        self._calls.gpuprof_buffer.argtypes = (ctypes.c_size_t, ctypes.c_char_p)

    def signature(self, entry: str) -> list[str]:
        """Return the kinds of a kernel's arguments."""
        text = ctypes.create_string_buffer(4096)
        try:
            write = self._calls[f"gpuprof_signature_{entry}"]
        except AttributeError:
            raise UsageError(f"{self._path.name} has no kernel {entry}") from None
        write(text)
        return text.value.decode().split()

    @contextmanager
    def lent(self, arguments: Sequence[object], names: Sequence[str]) -> Iterator[Any]:
        """Give an array of pointers to the arguments; arrays lie between guards meanwhile."""
        texts = [name.encode() for name in names]  # the library keeps pointers to them
        arrays: list[tuple[NDArray[Any], int]] = []
        cells: list[Any] = []
        try:
            for argument, text in zip(arguments, texts, strict=True):
                if not isinstance(argument, np.ndarray):
                    cells.append(_cell(argument))
                    continue
                address = self._calls.gpuprof_buffer(argument.nbytes, text)
                if address is None:
                    raise EnvironmentProblem(f"no memory for {text.decode()}, {argument.nbytes} bytes")
                ctypes.memmove(address, argument.ctypes.data, argument.nbytes)
                arrays.append((argument, address))
                cells.append(ctypes.c_void_p(address))
            yield (ctypes.c_void_p * max(1, len(cells)))(*(ctypes.addressof(cell) for cell in cells))
            for array, address in arrays:
                if array.flags.writeable:
                    ctypes.memmove(array.ctypes.data, address, array.nbytes)
        finally:
            self._calls.gpuprof_release()

    def launch(self, entry: str, launch: _Launch, cells: Any) -> str | None:
        """Run a kernel; return what went wrong."""
        failure = _Failure()
        call = ctypes.cast(self._calls[f"gpuprof_call_{entry}"], ctypes.c_void_p)
        with _ONE_AT_A_TIME:  # a launch takes the process's signals for itself
            failed = self._calls.gpuprof_launch(call, cells, ctypes.byref(launch), ctypes.byref(failure))
        if not failed:
            return None
        text = failure.text.decode(errors="replace")
        line = self._line(failure.place) if failure.place else None
        return f"{text} ({line})" if line else text

    def _line(self, place: int) -> str | None:
        """Return file and line of an instruction, of the first of its functions that is not the header's."""
        reader = shutil.which("addr2line")
        if reader is None:
            return None
        command = [reader, "-i", "-e", str(self._path), hex(place)]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        places = [line.split(" ")[0] for line in told if not line.startswith("?") and HEADER.name not in line]
        return Path(places[0]).name if places and not places[0].endswith("?") else None


def _cell(scalar: Any) -> Any:
    """Return a scalar in memory of its own."""
    data = scalar.tobytes() if isinstance(scalar, np.generic) else bytes(scalar)
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


@cache
def _library(path: Path) -> _Library:
    return _Library(path)
