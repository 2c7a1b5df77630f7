"""Has cuobjdump unpack the compressed entries of fat binaries, each by itself.

cuobjdump names the files that it extracts after the source and the architecture, and overwrites those of the same
name. So it gets an entry in a container and a folder of its own, which takes 5 ms.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.sass.binary.elf import ELF_START
from gpuprof.sass.binary.fatbin import FatEntry
from gpuprof.sass.tools.programs import Program, find_programs, private_folder, run

INSTALL_HINT = "install it: python -m pip install nvidia-cuda-cuobjdump"
_PATIENCE_S = 60.0
_REMOVED = "Support for "
"""How cuobjdump 13 begins its message on code for sm_35 and sm_37: that support has been removed."""
_NUMBERED = re.compile(r"\.(\d+)\.sm_\w+\.(?:cubin|ptx)$")
_MOST_UNPACKED_BYTES = 2**29
_LONGEST_REASON = 300


def find_cuobjdump() -> Program | None:
    """Return the newest cuobjdump in wheels, in CUDA toolkits and on PATH, or None."""
    return next(iter(find_programs("cuobjdump")), None)


def cubin_of(entry: FatEntry) -> bytes:
    """Return the cubin of an entry of a fat binary.

    Raises DamagedInput if it cannot be unpacked, and EnvironmentProblem if that takes a cuobjdump and there is none,
    or it is too new for the architecture.
    """
    cubin = _content(entry, "-xelf", ".cubin")
    if not cubin.startswith(ELF_START):
        raise DamagedInput(f"the fat binary holds no cubin in its entry for {entry.target}")
    return cubin


def ptx_of(entry: FatEntry) -> bytes:
    """Return the PTX of an entry of a fat binary. Raises the same."""
    return _content(entry, "-xptx", ".ptx").rstrip(b"\0")


def _content(entry: FatEntry, option: str, suffix: str) -> bytes:
    if not entry.compressed:
        return bytes(entry.stored)
    tool = find_cuobjdump()
    if tool is None:
        raise EnvironmentProblem(f"the code for {entry.target} is compressed, and there is no cuobjdump", INSTALL_HINT)
    unpacked = _unpacked(tool, entry, option, suffix)
    if len(unpacked) != entry.alike:
        raise DamagedInput(f"{tool} unpacks {len(unpacked)} of {entry.alike} parts of the code for {entry.target}")
    return unpacked[entry.place]


def _unpacked(tool: Program, entry: FatEntry, option: str, suffix: str) -> list[bytes]:
    """Return the parts of an entry in their order."""
    with private_folder() as folder:
        file = folder / "entry.fatbin"
        file.write_bytes(entry.alone())
        messages = run([str(tool.path), option, "all", file.name], _PATIENCE_S, folder=folder, cwd=folder).messages
        made = sorted(folder.glob(f"*{suffix}"), key=_number)
        if not made:
            reason = " ".join(messages.strip().rpartition("\n")[2].split())[:_LONGEST_REASON]
            if f"{_REMOVED}'{entry.target}'" in reason:
                raise EnvironmentProblem(f"{tool} does not unpack the code for {entry.target}: {reason}")
            raise DamagedInput(f"{tool} cannot unpack the code for {entry.target}: {reason or 'it gives no reason'}")
        if sum(path.stat().st_size for path in made) > _MOST_UNPACKED_BYTES:
            raise DamagedInput(f"the code for {entry.target} unpacks to more than {_MOST_UNPACKED_BYTES >> 20} MiB")
        return [path.read_bytes() for path in made]


def _number(path: Path) -> int:
    match = _NUMBERED.search(path.name)
    return int(match[1]) if match else 0
