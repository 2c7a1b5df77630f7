"""Make the request of a review from options of the command line, or from arguments in Python.

Invalid values raise UsageError before any input is read. Only the database of a build (--compile-commands) is read.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuprof.errors import UsageError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.kernel_match import kernel_pattern
from gpuprof.model.recorded import Dim3
from gpuprof.read.plain_file import STDIN
from gpuprof.review.inputs.builds import builds_of
from gpuprof.review.inputs.request import READS, ReviewRequest
from gpuprof.review.inputs.targets import target_named
from gpuprof.review.inputs.torch_headers import torch_build
from gpuprof.sass.tools.programs import LIMITS, CompileLimits
from gpuprof.units import BINARY_PREFIXES, DECIMAL_PREFIXES, parse_quantity

GivenSize = str | int | Sequence[int]
"""A block or a grid: 256, "16,16", (16, 16, 1)."""

_MOST_THREADS = 1024
_MOST_BLOCK = (1024, 1024, 64)
_MOST_GRID = (2**31 - 1, 65_535, 65_535)
"""Limits of every architecture: CUDA C++ Programming Guide, technical specifications."""
_LEAST_MEMORY = 300 * 10**6
"""NVRTC 13.5 takes 192 MB of addresses for the smallest kernel, Python's among them."""
_NUMBER = re.compile(r"([+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}))([A-Za-z]{0,2})")
_PREFIXES = {**DECIMAL_PREFIXES, **BINARY_PREFIXES}
STANDARDS = ("c++03", "c++11", "c++14", "c++17", "c++20", "c++23")
"""Values of --std that NVRTC 13 takes; older ones take fewer."""
_OWN_OPTIONS = {
    **dict.fromkeys(("arch", "gpu-architecture", "gencode", "generate-code", "code", "gpu-code"), "--arch"),
    "std": "--std",
    **dict.fromkeys(("define-macro", "D"), "-D"),
    **dict.fromkeys(("include-path", "I"), "-I"),
}
"""Compiler flags that have an option of `gpuprof check`."""
_FLAG = re.compile(r"--?(?P<name>[DI](?!$)|[A-Za-z][\w-]*)(?:=.*)?", re.DOTALL)
_MACRO = re.compile(r"[A-Za-z_]\w*(\([^()=]*\))?(=.*)?", re.DOTALL)


def request_of(
    files: Iterable[str | os.PathLike[str]],
    *,
    arch: str | Iterable[str] = (),
    kernel: str | None = None,
    block: GivenSize | None = None,
    grid: GivenSize | None = None,
    dynamic_shared: str | int | None = None,
    args: Mapping[str | int, int] | Iterable[str] = (),
    defines: Iterable[str] = (),
    include: Iterable[str | os.PathLike[str]] = (),
    std: str | None = None,
    flags: Iterable[str] = (),
    compile_commands: str | os.PathLike[str] | None = None,
    file: str | None = None,
    torch: bool = False,
    compile_timeout: float = LIMITS.seconds,
    compile_memory: str | int = LIMITS.memory_bytes,
    salvage: bool = False,
    keep_private: bool = False,
) -> ReviewRequest:
    """Return the request. Call `refuse_files` to check the names of files, together with those of a base."""
    database = os.fspath(compile_commands) if compile_commands is not None else None
    if file is not None and database is None:
        raise UsageError(f"--file {file!r:.80} chooses from a database", "name one: --compile-commands FILE")
    builds = builds_of(database, file) if database is not None else {}
    return ReviewRequest(
        files=tuple(dict.fromkeys((*(os.fspath(name) for name in files), *builds))),
        database=database,
        chosen_files=file,
        builds=builds,
        torch=torch_build() if torch else None,
        targets=targets_of([arch] if isinstance(arch, str) else arch),
        kernel=kernel_pattern(kernel, "--kernel") if kernel is not None else None,
        block=block_of(block) if block is not None else None,
        grid=grid_of(grid) if grid is not None else None,
        dynamic_shared_bytes=bytes_of(dynamic_shared) if dynamic_shared is not None else None,
        arguments=arguments_of(args),
        defines=macros_of(defines),
        include_folders=tuple(_folder(os.fspath(folder)) for folder in include),
        standard=standard_of(std) if std is not None else None,
        flags=flags_of(flags),
        limits=limits_of(compile_timeout, compile_memory),
        salvage=salvage,
        keep_private=keep_private,
    )


def refuse_files(files: Sequence[str]) -> None:
    """Raise UsageError if there is no file, one is given twice, or one has no name."""
    if not files:
        raise UsageError("no file given", READS)
    places: set[str] = set()
    for name in files:
        if not name or "\0" in name:
            raise UsageError(f"{name!r:.100} is not the name of a file", "name a file")
        place = os.path.realpath(name) if name != STDIN else name
        if place in places:
            raise UsageError(f"{name} is given twice", "name each file once")
        places.add(place)


def targets_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the named architectures, each once: "90", "9.0" and "sm_90" are sm_90. A text may list several."""
    return tuple(dict.fromkeys(_target(part.strip()) for text in texts for part in text.split(",")))


def _target(text: str) -> str:
    known = [path.stem for path in SpecLibrary().arch_files()]
    target = target_named(text)
    if target is None or target.rstrip("af") not in known:
        raise UsageError(f"--arch {text!r:.60} is not an architecture that gpuprof knows", f"known: {', '.join(known)}")
    return target


def block_of(given: GivenSize) -> Dim3:
    """Return the threads of a block."""
    block = _size(given, "--block", _MOST_BLOCK, "256 or 16,16")
    if math.prod(block) > _MOST_THREADS:
        raise UsageError(
            f"--block {','.join(map(str, block))} has {math.prod(block)} threads", "a block has 1024 at most"
        )
    return block


def grid_of(given: GivenSize) -> Dim3:
    """Return the blocks of a grid."""
    return _size(given, "--grid", _MOST_GRID, "4096 or 64,64")


def _size(given: GivenSize, option: str, most: Dim3, example: str) -> Dim3:
    text = str(given) if isinstance(given, str | int) else ",".join(map(str, given))
    parts = [part.strip() for part in re.split(r"[,x×]", text.strip("() "))]
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"[0-9]{1,10}", part) for part in parts):
        raise UsageError(f"{option} {given!s:.60} is not X, X,Y or X,Y,Z", f"such as {option} {example}")
    x, y, z = (*map(int, parts), *[1] * (3 - len(parts)))
    for axis, number, limit in zip("xyz", (x, y, z), most, strict=True):
        if not 1 <= number <= limit:
            raise UsageError(f"{option} {given!s:.60}: {axis} is {number}", f"{axis} is 1 to {limit}")
    return x, y, z


def limits_of(seconds: float, memory: str | int) -> CompileLimits:
    """Return the limits of compiling a source: 60 s and "2GB"."""
    if not 0 < seconds < math.inf:
        raise UsageError(f"--compile-timeout {seconds!r:.60} is not a number above 0", "such as 120")
    memory_bytes = bytes_of(memory, "--compile-memory", "4GB", 2**62)
    if memory_bytes < _LEAST_MEMORY:
        raise UsageError(f"--compile-memory {memory!r:.60} is too little for a compiler", "1GB does for most sources")
    return CompileLimits(float(seconds), memory_bytes)


def bytes_of(
    given: str | int, option: str = "--dynamic-shared", such_as: str = "49152 or 48KiB", most: int = 2**31 - 1
) -> int:
    """Return a size: 49152, "49152", "48KiB", "48 KiB"."""
    text = str(given).strip()
    with contextlib.suppress(ValueError):
        size = parse_quantity(f"{text} B" if text.isdecimal() else text)
        if size.unit == "B" and 0 <= size.value <= most and size.value.is_integer():
            return int(size.value)
    raise UsageError(f"{option} {text!r:.60} is not a number of bytes", f"such as {such_as}")


def arguments_of(given: Iterable[str] | Mapping[str | int, int]) -> dict[str, int]:
    """Return the values of arguments by place, name or part: "3=4096", "n=4Ki", "in.stride=1", {"n": 4096}."""
    if isinstance(given, Mapping):
        given = [f"{key}={value}" for key, value in given.items()]
    arguments: dict[str, int] = {}
    for text in given:
        name, equals, number = text.partition("=")
        key = name.strip()
        if not equals or not key:
            raise UsageError(f"--arg {text!r:.80} is not ORDINAL=VALUE or NAME=VALUE", "such as --arg 3=4096")
        key = str(int(key)) if key.isascii() and key.isdigit() and len(key) < 10 else key
        value = _number(number.strip(), text)
        if arguments.setdefault(key, value) != value:
            raise UsageError(f"--arg {key:.60} is given twice, with two values", "give each argument once")
    return arguments


def _number(number: str, text: str) -> int:
    match = _NUMBER.fullmatch(number)
    if match is not None and match[3] in _PREFIXES:
        value = int(match[1], 16 if match[2][:2] in ("0x", "0X") else 10) * int(_PREFIXES[match[3]])
        if -(2**63) <= value < 2**64:
            return value
    hint = "values are whole numbers of 64 bits: 4096, -1, 0x1000, 4Ki (4096), 4K (4000)"
    raise UsageError(f"--arg {text!r:.80}: {number!r:.60} is not a whole number", hint)


def macros_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the macros for a compiler: "N", "N=4096"."""
    macros = tuple(texts)
    for text in macros:
        if not _MACRO.fullmatch(text) or "\0" in text:
            raise UsageError(f"-D {text!r:.80} is not NAME or NAME=VALUE", "such as -D TILE=32")
    return macros


def standard_of(text: str) -> str:
    """Return the version of C++ that sources are compiled as: "c++20"."""
    if text not in STANDARDS:
        raise UsageError(
            f"--std {text!r:.60} is not a version of C++ that NVRTC takes", f"there are {', '.join(STANDARDS)}"
        )
    return text


def flags_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return other flags for a compiler, as they are: "-use_fast_math", "-maxrregcount=64"."""
    if isinstance(texts, str):
        raise UsageError(f"flags={texts!r:.60} is one text", "give a list of flags")
    flags = tuple(texts)
    for text in flags:
        match = _FLAG.match(text)
        own = _OWN_OPTIONS.get(match["name"]) if match is not None else None
        if own is not None:
            raise UsageError(f"--flag {text!r:.80}: there is an option for that", f"give {own} instead")
        if match is None or match[0] != text or "\0" in text:
            raise UsageError(
                f"--flag {text!r:.80} is not a flag of a compiler",
                "such as --flag=-use_fast_math or --flag=-maxrregcount=64",
            )
    return flags


def _folder(name: str) -> str:
    if not Path(name).is_dir():
        what = "is a file" if Path(name).is_file() else "does not exist"
        raise UsageError(f"-I {name:.200} {what}", "name a folder of headers")
    return name
