"""A request made of the options of the command line, or of arguments in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import kernel_pattern
from gpuprof.read.plain_file import STDIN
from gpuprof.review.inputs.builds import builds_of
from gpuprof.review.inputs.request import READS, ReviewRequest
from gpuprof.review.inputs.torch_headers import torch_build
from gpuprof.review.options import (
    GivenSize,
    arguments_of,
    block_of,
    bytes_of,
    flags_of,
    grid_of,
    limits_of,
    macros_of,
    standard_of,
    targets_of,
)
from gpuprof.sass.tools.programs import LIMITS


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
    """Return the request. Raises UsageError for values that cannot be, before any file is read but a database."""
    database = os.fspath(compile_commands) if compile_commands is not None else None
    if file is not None and database is None:
        raise UsageError(f"--file {file!r:.80} chooses from a database", "name one: --compile-commands FILE")
    builds = builds_of(database, file) if database is not None else {}
    named = tuple(dict.fromkeys((*(os.fspath(name) for name in files), *builds)))
    refuse_files(named)
    if kernel is not None:
        kernel_pattern(kernel, "--kernel")
    return ReviewRequest(
        files=named,
        database=database,
        chosen_files=file,
        builds=builds,
        torch=torch_build() if torch else None,
        targets=targets_of([arch] if isinstance(arch, str) else arch),
        kernel=kernel,
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
            empty = "a file has a zero byte in its name" if name else "a file has an empty name"
            raise UsageError(f"gpuprof check: {empty}", "name a file")
        place = os.path.realpath(name) if name != STDIN else name
        if place in places:
            raise UsageError(f"{name} is given twice", "name each file once")
        places.add(place)


def _folder(name: str) -> str:
    if not Path(name).is_dir():
        what = "is a file" if Path(name).is_file() else "does not exist"
        raise UsageError(f"-I {name:.200} {what}", "name a folder of headers")
    return name
