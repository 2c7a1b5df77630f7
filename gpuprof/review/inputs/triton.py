"""Kernels that Triton compiled: cubins of its cache with the metadata and the names of arguments beside them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.review.inputs.chosen import KernelChoice, module_of_cubin
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.kernel import InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.units import WARP_THREADS

_MOST_METADATA = 4 * 2**20
_MOST_IR = 64 * 2**20
_MOST_FILES = 200_000
_MOST_WARPS = 32
_INTERMEDIATE = (".ttir", ".source", ".ttgir")
"""What may stand beside a cubin and names arguments. Caches of Triton 3.1 and 3.3 have no names, those of 3.9 have."""
_ARGUMENT = re.compile(r"%(?P<name>[\w$.-]+)\s*:\s*(?P<type>!?[\w.]+)")
_UNNAMED = re.compile(r"arg\d+")
_WIDTHS = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    """What Triton says of a launch: None where it does not."""

    name: str | None
    warps: int | None
    shared_bytes: int | None
    version: str | None


def triton_modules(folder: Path, origin: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the kernels of a cache folder, and of those below it. Raises InputError where there is none."""
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
    """Return the kernel of a cubin with what lies beside it; the plain cubin where nothing does."""
    data = read_bytes(cubin, origin)
    try:
        metadata = _metadata(cubin.with_suffix(".json"), origin)
    except InputError as error:
        return module_of_cubin(data, origin, choice, notes=(f"{error.message}; block and shared memory are not known",))
    if metadata is None:
        return module_of_cubin(data, origin, choice)
    shape = KnownLaunch(
        block=(WARP_THREADS * metadata.warps, 1, 1) if metadata.warps is not None else None,
        dynamic_shared_bytes=metadata.shared_bytes,
    )
    tools = () if metadata.warps is None else (f"Triton {metadata.version}" if metadata.version else "Triton",)
    module = module_of_cubin(data, origin, choice, shape=shape, tools=tools)
    declared = _declared(cubin, metadata.name) if module.kernels else ()
    return replace(
        module,
        kernels=tuple(replace(kernel, argument_names=_names(kernel.kernel, declared)) for kernel in module.kernels),
    )


def cubin_beside(metadata: Path, origin: str) -> Path:
    """Return the cubin that metadata are of. Raises InputError where there is none."""
    cubin = metadata.with_suffix(".cubin")
    if not cubin.is_file():
        raise InputError(
            f"{origin} has no {cubin.name:.100} beside it", "name a .cubin, or the folder of Triton's cache"
        )
    return cubin


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
    """Read what Triton says of a kernel; None where there is none. Raises DamagedInput for what is none."""
    if not path.is_file():
        return None
    try:
        content = json.loads(read_bytes(path, origin, most=_MOST_METADATA))
    except (ValueError, RecursionError) as error:
        raise DamagedInput(f"{path.name:.100} beside {origin} is not JSON") from error
    if not isinstance(content, dict):
        raise DamagedInput(f"{path.name:.100} beside {origin} is not metadata of Triton")
    lanes = _whole(_target(content).get("warp_size", content.get("warp_size")), WARP_THREADS) or WARP_THREADS
    warps = _whole(content.get("num_warps"), _MOST_WARPS)
    name, version = content.get("name"), content.get("triton_version")
    return _Metadata(
        name=name if isinstance(name, str) else None,
        warps=warps if warps and lanes == WARP_THREADS else None,
        shared_bytes=_whole(content.get("shared"), 2**24),
        version=version[:40] if isinstance(version, str) else None,
    )


def _target(content: Mapping[str, object]) -> Mapping[str, object]:
    target = content.get("target")
    return target if isinstance(target, dict) else {}


def _whole(value: object, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def _declared(cubin: Path, name: str | None) -> tuple[tuple[str | None, int | None], ...]:
    """Return name and width of the arguments that Triton's intermediate code declares; None for what is not known."""
    for suffix in _INTERMEDIATE:
        try:
            text = read_bytes(cubin.with_suffix(suffix), str(cubin), _MOST_IR).decode("utf-8", "replace")
        except InputError:
            continue
        start = text.find(f"tt.func public @{name}(") if name else -1
        if start >= 0:
            return _arguments(text[text.index("(", start) :])
    return ()


def _arguments(text: str) -> tuple[tuple[str | None, int | None], ...]:
    """Read a list of arguments up to its closing bracket."""
    declared: list[tuple[str | None, int | None]] = []
    for part in _parts(text):
        match = _ARGUMENT.match(part.strip())
        if match is None:
            return ()
        name = match["name"]
        declared.append((None if _UNNAMED.fullmatch(name) else name, _width(match["type"])))
    return tuple(declared)


def _parts(text: str) -> Iterator[str]:
    """Split at the commas that stand in no bracket and no string."""
    depth, start, quoted = 0, 1, False
    for at, char in enumerate(text[:100_000]):
        if char == '"':
            quoted = not quoted
        if quoted:
            continue
        depth += (char in "([{<") - (char in ")]}>" and text[at - 1] != "-")
        if (char == "," and depth == 1) or depth == 0:
            if text[start:at].strip():
                yield text[start:at]
            start = at + 1
        if depth == 0:
            return


def _width(kind: str) -> int | None:
    """Return the bytes of a parameter; None for a type that becomes several parameters, or one of unknown size."""
    return 8 if kind.startswith("!tt.ptr") else _WIDTHS.get(kind)


def _names(kernel: CubinKernel, declared: tuple[tuple[str | None, int | None], ...]) -> tuple[str | None, ...]:
    """Return names by ordinal, up to where the parameters of the code are others than those declared.

    Triton adds parameters of its own behind them: scratch memory.
    """
    names: list[str | None] = []
    for parameter, (name, width) in zip(kernel.parameters, declared, strict=False):
        if width != parameter.size_bytes:
            break
        names.append(name)
    return tuple(names) if len(declared) <= len(kernel.parameters) else ()
