"""Kernels that Triton compiled: cubins of its cache with the metadata and the names of arguments beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from gpuprof.errors import DamagedInput, InputError
from gpuprof.review.inputs.chosen import KernelChoice, module_of_cubin
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.kernel import InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.units import WARP_THREADS

_MOST_METADATA = 4 * 2**20
_MOST_IR = 64 * 2**20
_MOST_FILES = 200_000
_INTERMEDIATE = (".ttir", ".source", ".ttgir")
"""Files beside a cubin that may name arguments. Caches of Triton 3.1 and 3.3 have no names, those of 3.9 have."""
_ARGUMENT = re.compile(r"%([\w$.-]+): (!?[\w.]+)")
_UNNAMED = re.compile(r"arg\d+")
_BYTES = {"!tt.ptr": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


class _Target(msgspec.Struct):
    warp_size: int = WARP_THREADS


class _Metadata(msgspec.Struct):
    """A launch as Triton describes it."""

    name: str = ""
    num_warps: Annotated[int, msgspec.Meta(ge=1, le=32)] | None = None
    shared: Annotated[int, msgspec.Meta(ge=0, le=2**24)] | None = None
    triton_version: str | None = None
    target: _Target | list[object] | str | None = None
    warp_size: int = WARP_THREADS

    @property
    def warps(self) -> int | None:
        """Return the warps of a block if they are of 32 threads."""
        lanes = self.target.warp_size if isinstance(self.target, _Target) else self.warp_size
        return self.num_warps if lanes == WARP_THREADS else None


def triton_modules(folder: Path, origin: str, choice: KernelChoice) -> list[InputModule]:
    """Return the kernels of a cache folder, and of those below it. Raises InputError if there is none."""
    cubins = _cubins(folder, origin)
    if not cubins:
        raise InputError(
            f"{origin} is a folder without compiled kernels (*.cubin)",
            "name a file; or Triton's cache, which is ~/.triton/cache or TRITON_CACHE_DIR",
        )
    modules: list[InputModule] = []
    broken: list[str] = []
    for cubin in cubins:
        try:
            modules.append(triton_module(cubin, str(Path(origin) / cubin.relative_to(folder)), choice))
        except InputError as error:
            broken.append(error.message)
    if not modules:
        raise DamagedInput(broken[0])
    notes = [f"left out: {message}" for message in broken]
    modules[0] = replace(modules[0], notes=(*notes, *modules[0].notes))
    return modules


def triton_module(cubin: Path, origin: str, choice: KernelChoice) -> InputModule:
    """Return the kernel of a cubin with the metadata beside it, if there are some."""
    data = read_bytes(cubin, origin)
    metadata = _Metadata()
    notes: tuple[str, ...] = ()
    try:
        metadata = _metadata(cubin.with_suffix(".json"), origin)
    except InputError as error:
        notes = (f"{error.message}; block and shared memory are not known",)
    block = None
    tools: tuple[str, ...] = ()
    if metadata.warps is not None:
        block = (WARP_THREADS * metadata.warps, 1, 1)
        tools = (f"Triton {metadata.triton_version or ''}".strip(),)
    shape = KnownLaunch(block=block, dynamic_shared_bytes=metadata.shared)
    module = module_of_cubin(data, origin, choice, shape=shape, tools=tools, notes=notes)
    declared = _declared(cubin, metadata.name) if metadata.name and module.kernels else ()
    named = (replace(kernel, argument_names=_names(kernel.kernel, declared)) for kernel in module.kernels)
    return replace(module, kernels=tuple(named))


def _cubins(folder: Path, origin: str) -> list[Path]:
    """Return the cubins of a folder and of those below it, by name."""
    cubins: list[Path] = []
    looked_at = 0
    for place, folders, files in os.walk(folder):
        folders.sort()
        looked_at += len(files) + len(folders)
        if looked_at > _MOST_FILES:
            raise InputError(f"{origin} has more than {_MOST_FILES:,} files", "name a folder below it")
        cubins.extend(Path(place, name) for name in sorted(files) if name.endswith(".cubin"))
    return cubins


def _metadata(path: Path, origin: str) -> _Metadata:
    """Read the metadata of a kernel, empty without a file. Raises DamagedInput for anything else."""
    if not path.is_file():
        return _Metadata()
    content = read_bytes(path, origin, most=_MOST_METADATA)
    try:
        return msgspec.json.decode(content, type=_Metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedInput(f"{path.name:.100} beside {origin} is no metadata of Triton: {error!s:.100}") from error


def _declared(cubin: Path, name: str) -> Sequence[tuple[str, str]]:
    """Return name and type of the arguments that Triton's intermediate code declares, in one line."""
    for suffix in _INTERMEDIATE:
        try:
            text = read_bytes(cubin.with_suffix(suffix), str(cubin), _MOST_IR).decode("utf-8", "replace")
        except InputError:
            continue
        header = text.partition(f"tt.func public @{name}(")[2].partition("\n")[0]
        if header:
            return _ARGUMENT.findall(header)
    return ()


def _names(kernel: CubinKernel, declared: Sequence[tuple[str, str]]) -> tuple[str | None, ...]:
    """Return names by ordinal, up to the first parameter of the code that is not the one declared.

    Triton adds parameters of its own behind them: scratch memory. A type of another size becomes several.
    """
    names: list[str | None] = []
    for parameter, (name, kind) in zip(kernel.parameters, declared, strict=False):
        if _BYTES.get(kind) != parameter.size_bytes:
            break
        names.append(None if _UNNAMED.fullmatch(name) else name)
    return tuple(names) if len(declared) <= len(kernel.parameters) else ()
