"""Kernels that Triton compiled: cubins of its cache with the metadata and the names of arguments beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
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
    """What Triton says of a launch."""

    name: str = ""
    num_warps: Annotated[int, msgspec.Meta(ge=1, le=32)] | None = None
    shared: Annotated[int, msgspec.Meta(ge=0, le=2**24)] | None = None
    triton_version: str | None = None
    target: _Target | list[object] | str | None = None
    warp_size: int = WARP_THREADS

    @property
    def warps(self) -> int | None:
        """Return the warps of a block if they are those of NVIDIA."""
        lanes = self.target.warp_size if isinstance(self.target, _Target) else self.warp_size
        return self.num_warps if lanes == WARP_THREADS else None


def triton_modules(folder: Path, origin: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the kernels of a cache folder, and of those below it. Raises InputError if there is none."""
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
    notes = tuple(f"left out: {message}" for message in broken)
    yield replace(modules[0], notes=(*notes, *modules[0].notes))
    yield from modules[1:]


def triton_module(cubin: Path, origin: str, choice: KernelChoice) -> InputModule:
    """Return the kernel of a cubin with the metadata beside it, if there are some."""
    data = read_bytes(cubin, origin)
    try:
        metadata = _metadata(cubin.with_suffix(".json"), origin)
    except InputError as error:
        return module_of_cubin(data, origin, choice, notes=(f"{error.message}; block and shared memory are not known",))
    if metadata is None:
        return module_of_cubin(data, origin, choice)
    shape = KnownLaunch(
        block=(WARP_THREADS * metadata.warps, 1, 1) if metadata.warps is not None else None,
        dynamic_shared_bytes=metadata.shared,
    )
    tools = (f"Triton {metadata.triton_version or ''}".strip(),) if metadata.warps is not None else ()
    module = module_of_cubin(data, origin, choice, shape=shape, tools=tools)
    declared = _declared(cubin, metadata.name) if module.kernels else ()
    return replace(
        module,
        kernels=tuple(replace(kernel, argument_names=_names(kernel.kernel, declared)) for kernel in module.kernels),
    )


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


def _metadata(path: Path, origin: str) -> _Metadata | None:
    """Read what Triton says of a kernel; None if there is no file. Raises DamagedInput for anything else."""
    if not path.is_file():
        return None
    content = read_bytes(path, origin, most=_MOST_METADATA)
    try:
        metadata = msgspec.json.decode(content, type=_Metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedInput(f"{path.name:.100} beside {origin} is no metadata of Triton: {error!s:.100}") from error
    return metadata


def _declared(cubin: Path, name: str) -> tuple[tuple[str, str], ...]:
    """Return name and type of the arguments that Triton's intermediate code declares, in one line."""
    for suffix in _INTERMEDIATE:
        try:
            text = read_bytes(cubin.with_suffix(suffix), str(cubin), _MOST_IR).decode("utf-8", "replace")
        except InputError:
            continue
        header = text.partition(f"tt.func public @{name}(")[2].partition("\n")[0]
        if header:
            return tuple((match[1], match[2]) for match in _ARGUMENT.finditer(header))
    return ()


def _names(kernel: CubinKernel, declared: Sequence[tuple[str, str]]) -> tuple[str | None, ...]:
    """Return names by ordinal, up to where the parameters of the code are others than those declared.

    Triton adds parameters of its own behind them: scratch memory. A type of another size becomes several.
    """
    names: list[str | None] = []
    for parameter, (name, kind) in zip(kernel.parameters, declared, strict=False):
        if _BYTES.get(kind) != parameter.size_bytes:
            break
        names.append(None if _UNNAMED.fullmatch(name) else name)
    return tuple(names) if len(declared) <= len(kernel.parameters) else ()
