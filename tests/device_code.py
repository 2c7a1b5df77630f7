"""The fat binaries and object files of tests/data/device_code, and the cubins in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gpuprof.sass.binary.fatbin import FatEntry, containers
from gpuprof.sass.binary.host_binary import device_code

FOLDER = Path(__file__).parent / "data" / "device_code"


def entries(name: str) -> list[FatEntry]:
    """The entries of a fat binary in that folder."""
    return fatbin_entries((FOLDER / name).read_bytes())


def fatbin_entries(content: bytes) -> list[FatEntry]:
    """The entries of all containers."""
    return [entry for held in containers(content) for entry in held]


def file_entries(path: Path) -> list[FatEntry]:
    """The entries of the only fat binary in a file, read."""
    (content,) = (bytes(code.part) for code in device_code(path))
    return fatbin_entries(content)


@cache
def cubin_for(target: str) -> bytes:
    """The cubin of scale.cu for a target: sm_80, sm_90a or sm_100f."""
    (entry,) = (entry for entry in entries("plain.fatbin") if entry.target == target)
    return entry.content()
