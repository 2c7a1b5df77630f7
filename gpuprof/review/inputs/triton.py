"""Kernels that Triton compiled: cubins of its cache with the metadata and the names of arguments beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from gpuprof.errors import DamagedInput, InputError
from gpuprof.review.inputs.chosen import module_of_cubin
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.kernel import InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.units import WARP_THREADS

_MOST_METADATA = 4 * 2**20
_MOST_IR = 64 * 2**20
_ARGUMENT = re.compile(r"%([\w$.-]+): (!?[\w.]+)")
_UNNAMED = re.compile(r"arg\d+")
_BYTES = {"!tt.ptr": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


class _Metadata(msgspec.Struct):
    """A launch as Triton describes it."""

    name: str = ""
    num_warps: Annotated[int, msgspec.Meta(ge=1, le=32)] | None = None
    shared: Annotated[int, msgspec.Meta(ge=0, le=2**24)] | None = None
    triton_version: str = ""


def triton_modules(folder: Path, origin: str, request: ReviewRequest) -> list[InputModule]:
    """Return the kernels of a cache folder, and of those below it. Raises InputError if there is none."""
    cubins = sorted(folder.rglob("*.cubin"))
    if not cubins:
        raise InputError(
            f"{origin} is a folder without compiled kernels (*.cubin)",
            "name a file; or Triton's cache, which is ~/.triton/cache or TRITON_CACHE_DIR",
        )
    modules: list[InputModule] = []
    broken: list[str] = []
    for cubin in cubins:
        try:
            modules += cubin_modules(cubin, str(Path(origin) / cubin.relative_to(folder)), request)
        except InputError as error:
            broken.append(error.message)
    if not modules:
        raise DamagedInput(broken[0])
    notes = [f"left out: {message}" for message in broken]
    modules[0] = replace(modules[0], notes=(*notes, *modules[0].notes))
    return modules


def cubin_modules(path: Path, origin: str, request: ReviewRequest) -> Sequence[InputModule]:
    """Return the kernels of a cubin, as Triton describes them if its metadata are beside it."""
    data = read_bytes(path, origin)
    metadata = _Metadata()
    notes: tuple[str, ...] = ()
    try:
        metadata = _metadata(path.with_suffix(".json"), origin)
    except InputError as error:
        notes = (f"{error.message}; block and shared memory are not known",)
    block = None
    tools: tuple[str, ...] = ()
    if metadata.num_warps is not None:
        block = (WARP_THREADS * metadata.num_warps, 1, 1)
        tools = (f"Triton {metadata.triton_version}".strip(),)
    shape = KnownLaunch(block=block, dynamic_shared_bytes=metadata.shared)
    module = module_of_cubin(data, origin, request, shape=shape, tools=tools, notes=notes)
    if metadata.name:
        declared = _declared(path.with_suffix(".ttir"), metadata.name)
        named = (replace(kernel, argument_names=_names(kernel.kernel, declared)) for kernel in module.kernels)
        module = replace(module, kernels=tuple(named))
    return [module]


def _metadata(path: Path, origin: str) -> _Metadata:
    """Read the metadata of a kernel, empty without a file. Raises DamagedInput for anything else."""
    if not path.is_file():
        return _Metadata()
    content = read_bytes(path, origin, most=_MOST_METADATA)
    try:
        return msgspec.json.decode(content, type=_Metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedInput(f"{path.name:.100} beside {origin} is no metadata of Triton: {error!s:.100}") from error


def _declared(path: Path, name: str) -> Sequence[tuple[str, str]]:
    """Return name and type of the arguments that Triton's intermediate code declares, in one line."""
    try:
        text = read_bytes(path, path.name, _MOST_IR).decode("utf-8", "replace")
    except InputError:
        return ()
    return _ARGUMENT.findall(text.partition(f"tt.func public @{name}(")[2].partition("\n")[0])


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
