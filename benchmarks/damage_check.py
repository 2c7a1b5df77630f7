"""Cuts and alters files of every kind that `gpuprof check` reads, and counts how the whole review of them ends.

`python -m benchmarks.damage_check [N] [FIRST]`: N files (1,000) from seed FIRST (0) on, made of cubins, fat binaries,
PTX, kernels of Triton with what lies beside them, and reports. Each is reviewed and written in every format. It is to
end, or be refused, within 10 s of CPU time and 1 GB; whatever else is named, with its seed, and fails. 10,000 take
half an hour: nvdisasm is asked for what is new in each that can be read.
"""

from __future__ import annotations

import collections
import io
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.damage_code import variant
from gpuprof.errors import GpuprofError
from gpuprof.sass.binary.fatbin import containers

FILES = 1_000
MOST_S, MOST_BYTES = 10.0, 1e9
_ROOT = Path(__file__).resolve().parents[1]
_DATA = _ROOT / "tests" / "data"
_RECORDINGS = _ROOT / "recordings"
_TOLD = 15
_PTX = b"""\
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 n) .maxntid 256, 1, 1
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>; .shared .align 4 .b8 tile[1024];
  ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
LOOP:
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r3, [%rd3]; st.shared.u32 [tile], %r3; st.global.u32 [%rd3], %r2;
  add.u32 %r2, %r2, 32; setp.lt.u32 %p1, %r2, %r1; @%p1 bra LOOP;
DONE:
  ret;
}
"""


class _Case(NamedTuple):
    """Files that lie side by side, the first of which is reviewed or, of several, one at random is damaged."""

    names: tuple[str, ...]
    contents: tuple[bytes, ...]


def main() -> int:
    """Print how the reviews ended, and every file that was neither reviewed nor refused; exit 1 if there is one."""
    count, first = (int(sys.argv[number]) if len(sys.argv) > number else most for number, most in ((1, FILES), (2, 0)))
    cases = [*_binaries(), _Case(("add.ptx",), (_PTX,)), *_triton(), *_reports()]
    ends: collections.Counter[str] = collections.Counter()
    slowest, bad = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        place = Path(folder) / "case"
        for seed in range(first, first + count):
            file = _made(place, cases, random.Random(seed))
            start = sum(os.times()[:4])
            end = _end(file)
            seconds = sum(os.times()[:4]) - start
            slowest = max(slowest, seconds)
            ends[end] += 1
            if end.startswith("BAD") or seconds > MOST_S or _most_bytes() > MOST_BYTES:
                bad += 1
                print(f"seed {seed}: {file.name}: {end}, {seconds:.2f} s, {_most_bytes() / 1e6:.0f} MB", flush=True)
            shutil.rmtree(place)
        left = sorted(path.name for path in Path(folder).iterdir())
        tempfile.tempdir = None
    print(f"{count:,} files made of {len(cases)}: {ends['reviewed']:,} reviewed; {bad} bad; at most {slowest:.2f} s")
    for end, number in ends.most_common(_TOLD):
        print(f"{number:7,}  {end}")
    if left:
        print(f"left behind: {', '.join(left)}")
    return 1 if bad or left else 0


def _binaries() -> Iterator[_Case]:
    folder = _DATA / "device_code"
    for path in sorted(folder.iterdir()):
        if path.suffix in (".fatbin", ".o", ".so"):
            yield _Case((path.name,), (path.read_bytes(),))
    (entries,) = containers((folder / "plain.fatbin").read_bytes())
    for number, entry in enumerate(entries):
        if entry.kind == "sass":
            yield _Case((f"{number}.cubin",), (entry.content(),))


def _triton() -> Iterator[_Case]:
    for cubin in sorted((_DATA / "triton-cache").glob("*/*.cubin")):
        files = [cubin, *(cubin.with_suffix(suffix) for suffix in (".json", ".ttir"))]
        yield _Case(tuple(file.name for file in files), tuple(file.read_bytes() for file in files))


def _reports() -> Iterator[_Case]:
    for path in sorted(_RECORDINGS.glob("*.gz"), key=lambda path: path.stat().st_size)[:3]:
        yield _Case((path.name,), (path.read_bytes(),))
        unpacked = _unpacked(path)
        if len(unpacked) < 4_000_000:
            yield _Case((path.stem,), (unpacked,))


def _unpacked(path: Path) -> bytes:
    import gzip

    with gzip.open(path) as file:
        return file.read()


def _made(place: Path, cases: Sequence[_Case], rng: random.Random) -> Path:
    """Write a case with one of its files damaged, and return the file that is reviewed."""
    place.mkdir()
    case = rng.choice(cases)
    damaged = rng.randrange(len(case.names))
    for index, (name, content) in enumerate(zip(case.names, case.contents, strict=True)):
        data = _damaged(content, cases, rng) if index == damaged else content
        (place / name).write_bytes(data)
    return place / case.names[0]


def _damaged(content: bytes, cases: Sequence[_Case], rng: random.Random) -> bytes:
    """Return a content with damages; of text, half the time a word of it is another or is doubled."""
    if b"\0" in content[:4096] or rng.random() < 0.5:
        others = [rng.choice(rng.choice(cases).contents) for _ in range(3)]
        return variant([content] if rng.random() < 0.9 else others, rng)
    parts = re.split(rb"([\w.]+)", content)
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(len(parts))
        parts[at] = rng.choice(
            (b"", b"-1", b"1e999", b"99999999999999999999", b"{", b'"', parts[at] * 3, rng.choice(parts))
        )
    return b"".join(parts)


def _end(file: Path) -> str:
    """Review a file, write it in every format, and say how that ended."""
    try:
        _reviewed(file)
    except GpuprofError as error:
        told = error.message.replace(str(file), "FILE").replace(str(file.parent), "FOLDER")
        return f"{type(error).__name__}: " + re.sub(r"0x[0-9a-f]+|[\d,]*\d|'.*'", "N", told)[:70]
    except Exception as error:
        return f"BAD {type(error).__name__}: {error}"[:300]
    return "reviewed"


def _reviewed(file: Path) -> None:
    from rich.console import Console

    from gpuprof.review.inputs.request import ReviewRequest
    from gpuprof.review.review import review
    from gpuprof.views.formats import TABLE, formats_of
    from gpuprof.views.options import WriteOptions
    from gpuprof.views.review import print_review

    result = review(ReviewRequest(files=(str(file),), block=(64, 2, 1) if file.suffix == ".ptx" else None), "0")
    for form in formats_of("review").values():
        if form.name == TABLE:
            continue
        for line in form.lines(result, WriteOptions()):
            line.encode("utf-8", "backslashreplace")
    for verbose in (False, True):
        print_review(Console(file=io.StringIO(), width=80), result, verbose=verbose)


def _most_bytes() -> float:
    """Return the most memory that this process or one that it started has had."""
    import resource

    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return most * (1.0 if sys.platform == "darwin" else 1024.0)


if __name__ == "__main__":
    sys.exit(main())
