"""Finds cuobjdump and has it unpack the compressed entries of fat binaries, each by itself.

cuobjdump names the files that it extracts after the source and the architecture, and writes over those of the same
name. So an entry is given to it in a container of its own and a folder of its own, which takes 5 ms.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.sass.binary.elf import ELF_START
from gpuprof.sass.binary.fatbin import FatEntry
from gpuprof.sass.tools.programs import Program, ended, find_programs, within

INSTALL_HINT = "install it: python -m pip install nvidia-cuda-cuobjdump"
_PATIENCE_S = 60.0
_FILE = "entry.fatbin"
_REMOVED = "Support for "
"""How cuobjdump 13 begins what it says of code for sm_35 and sm_37: that support has been removed."""
_NUMBERED = re.compile(r"\.(\d+)\.sm_\w+\.(?:cubin|ptx)$")
_MOST_UNPACKED_BYTES = 2**29
_MOST_SAID, _LONGEST_REASON = 2**20, 300


def cubin_of(entry: FatEntry) -> bytes:
    """Return the cubin that an entry of a fat binary holds.

    Raises DamagedInput if it cannot be unpacked, and EnvironmentProblem where that takes a cuobjdump and there is none,
    or it is too new for the architecture.
    """
    cubin = _content(entry, "-xelf", ".cubin")
    if not cubin.startswith(ELF_START):
        raise DamagedInput(f"the fat binary holds no cubin in its entry for {entry.target}")
    return cubin


def ptx_of(entry: FatEntry) -> bytes:
    """Return the PTX that an entry of a fat binary holds. Raises the same."""
    return _content(entry, "-xptx", ".ptx").rstrip(b"\0")


def _content(entry: FatEntry, option: str, suffix: str) -> bytes:
    if not entry.compressed:
        return entry.content()
    tool = find_cuobjdump()
    if tool is None:
        raise EnvironmentProblem(f"the code for {entry.target} is compressed, and there is no cuobjdump", INSTALL_HINT)
    unpacked = _unpacked(tool, entry, option, suffix)
    if len(unpacked) != entry.alike:
        raise DamagedInput(f"{tool} unpacks {len(unpacked)} of {entry.alike} parts of the code for {entry.target}")
    return unpacked[entry.place]


def _unpacked(tool: Program, entry: FatEntry, option: str, suffix: str) -> list[bytes]:
    """Return what an entry holds, in its order."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        file = Path(folder) / _FILE
        file.write_bytes(entry.alone())
        said = _run(tool, option, file)
        made = sorted(Path(folder).glob(f"*{suffix}"), key=_number)
        if not made and f"{_REMOVED}'{entry.target}'" in said:
            raise EnvironmentProblem(f"{tool} does not unpack the code for {entry.target}: {said}")
        if not made:
            raise DamagedInput(f"{tool} cannot unpack the code for {entry.target}: {said or 'it gives no reason'}")
        if sum(path.stat().st_size for path in made) > _MOST_UNPACKED_BYTES:
            raise DamagedInput(f"the code for {entry.target} unpacks to more than {_MOST_UNPACKED_BYTES >> 20} MiB")
        return [path.read_bytes() for path in made]


def _run(tool: Program, option: str, file: Path) -> str:
    """Extract the code in a file beside it; return what the tool says of failing."""
    command = [str(tool.path), option, "all", file.name]
    with tempfile.TemporaryFile() as log:
        try:
            ended(
                within(command), _PATIENCE_S, stdout=subprocess.DEVNULL, stderr=log, cwd=file.parent,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentProblem(f"{tool.path} did not answer: {error}") from error
        log.seek(0)
        said = log.read(_MOST_SAID).decode("utf-8", "replace")
    return " ".join(said.strip().rpartition("\n")[2].split())[:_LONGEST_REASON]


def _number(path: Path) -> int:
    match = _NUMBERED.search(path.name)
    return int(match[1]) if match else 0


def find_cuobjdump() -> Program | None:
    """Return the newest cuobjdump in wheels, in the CUDA toolkit and on PATH, or None."""
    return next(iter(find_programs("cuobjdump")), None)
