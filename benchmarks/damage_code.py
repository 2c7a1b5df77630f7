"""Cuts and alters cubins, fat binaries and object files at random, and counts how reading them ends.

`python -m benchmarks.damage_code [N] [FILE…]`: N files (10,000), made of those named, or else of those of the tests and
of the cubins in real reports. Each is to be read or refused within a second and 200 MB; whatever else is named, with
the seed that makes it again, and fails.
"""

from __future__ import annotations

import collections
import os
import random
import re
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpuprof.errors import GpuprofError, InputError
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.binary.fatbin import containers
from gpuprof.sass.binary.host_binary import device_code
from gpuprof.sass.binary.line_table import line_tables

FILES = 10_000
MOST_S, MOST_BYTES = 1.0, 200e6
_ROOT = Path(__file__).resolve().parents[1]
_OWN = _ROOT / "tests" / "data" / "device_code"
_REPORTS = _ROOT.parent / "shared" / "reports"
_ODD = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)
_HEADER_BYTES = 512
_TOLD = 12


def main() -> int:
    """Print how reading ended, and every file that was neither read nor refused; exit 1 if there is one."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    sources = [Path(name).read_bytes() for name in sys.argv[2:]] or [*_own_files(), *_cubins_of_reports()]
    ends: collections.Counter[str] = collections.Counter()
    slowest, largest = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        file = Path(folder) / "variant"
        tracemalloc.start()
        for seed in range(count):
            file.write_bytes(variant(sources, random.Random(seed)))
            end, seconds, size = _tried(file)
            slowest, largest = max(slowest, seconds), max(largest, size)
            if end.startswith("BAD") or seconds > MOST_S or size > MOST_BYTES:
                ends["BAD"] += 1
                print(f"seed {seed}: {end}, {seconds:.2f} s, {size / 1e6:.0f} MB")
            ends[end.partition(":")[0] if end.startswith("BAD") else end] += 1
        left = sorted(path.name for path in Path(folder).iterdir() if path != file)
        tempfile.tempdir = None
    return _summary(ends, len(sources), count, f"{slowest:.2f} s, {largest / 1e6:.0f} MB", left)


def _summary(ends: collections.Counter[str], sources: int, count: int, most: str, left: Sequence[str]) -> int:
    refused = {end: number for end, number in ends.most_common() if end.startswith("refused")}
    print(
        f"{count:,} files made of {sources}: {ends['read']:,} read, {sum(refused.values()):,} refused; at most {most}"
    )
    for end, number in list(refused.items())[:_TOLD]:
        print(f"{number:7,}  {end}")
    if left:
        print(f"left behind: {', '.join(left)}")
    return 1 if ends["BAD"] or left else 0


def _own_files() -> Iterator[bytes]:
    """Yield the files of the tests, and the cubins in those of them that are not compressed."""
    for path in sorted(_OWN.iterdir()):
        if path.suffix in (".fatbin", ".o", ".so"):
            yield path.read_bytes()
    for entries in containers((_OWN / "plain.fatbin").read_bytes()):
        yield from (entry.content() for entry in entries if entry.kind == "sass")


def _cubins_of_reports() -> Iterator[bytes]:
    """Yield the cubins that real reports embed, each once; none where the reports are not beside the checkout."""
    from gpuprof.read.ncu_rep import read_ncu_rep

    seen = set()
    for path in sorted(_REPORTS.glob("*rep*")):
        for launch in read_ncu_rep(path, salvage=True).launches:
            program = launch.details.program()
            if program is not None and hash(program.cubin) not in seen:
                seen.add(hash(program.cubin))
                yield program.cubin


def variant(sources: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a file with one to three damages, half of them where its headers are."""
    data = bytearray(rng.choice(sources))
    for _ in range(rng.choice((1, 1, 2, 3))):
        if data:
            rng.choice(_DAMAGES)(data, sources, rng)
    return bytes(data)


def _place(data: bytearray, rng: random.Random) -> int:
    """Return an offset, often in the headers at the beginning, or where those of the sections are."""
    table = int.from_bytes(data[0x28:0x30], "little")
    around = rng.choice((0, 0, table, None))
    if around is None or around >= len(data):
        return rng.randrange(len(data))
    return min(len(data) - 1, around + rng.randrange(_HEADER_BYTES if not around else 4096))


def _flip(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    for _time in range(rng.choice((1, 3, 20))):
        data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _truncate(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _splice(data: bytearray, sources: Sequence[bytes], rng: random.Random) -> None:
    other = rng.choice(sources)
    start, size = rng.randrange(len(other)), rng.randrange(1, 2000)
    at = _place(data, rng)
    data[at : at + rng.choice((0, size, size, size))] = other[start : start + size]


def _odd_number(data: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    size = rng.choice((1, 2, 4, 8))
    at = _place(data, rng) // size * size
    number = rng.choice((*_ODD, len(data), len(data) - 1)) % 2 ** (8 * size)
    data[at : at + size] = number.to_bytes(size, "little")


_DAMAGES: tuple[Callable[[bytearray, Sequence[bytes], random.Random], None], ...] = (
    _flip,
    _truncate,
    _splice,
    _odd_number,
    _odd_number,
    _odd_number,
)


def _tried(file: Path) -> tuple[str, float, int]:
    """Return how reading ended, the seconds of CPU time, and the most memory."""
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], sum(os.times()[:4])
    end = _end(file)
    return end, sum(os.times()[:4]) - start, tracemalloc.get_traced_memory()[1] - before


def _end(file: Path) -> str:
    try:
        _read(file)
    except InputError as error:
        return "refused: " + re.sub(r"0x[0-9a-f]+|[\d,]*\d|'.*'", "N", error.message.replace(str(file), "FILE"))[:100]
    except GpuprofError as error:
        return f"BAD: {type(error).__name__}: {error}"
    except Exception as error:
        return f"BAD: {type(error).__name__}: {error}"
    return "read"


def _read(file: Path) -> None:
    """Read all that a file has, as `gpuprof check` does before it disassembles."""
    for code in device_code(file):
        if code.form == "cubin":
            _read_cubin(bytes(code.part))
            continue
        for entries in containers(code.part):
            for entry in entries:
                if entry.kind == "sass":
                    _read_cubin(entry.content())


def _read_cubin(data: bytes) -> None:
    read_cubin(data)
    line_tables(data)


if __name__ == "__main__":
    sys.exit(main())
