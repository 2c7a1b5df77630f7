"""Makes a report with many launches out of a small one, and measures how long gpuprof takes to show it."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpuprof.present.formats import FORMATS


def main() -> int:
    """Show N launches in every format, write their page, and print seconds and peak memory."""
    if len(sys.argv) < 2:
        sys.stderr.write("usage: many_launches.py REPORT [N]\n")
        return 2
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.ncu-rep"
        path.write_bytes(repeated(Path(sys.argv[1]).read_bytes(), wanted))
        print(f"{wanted} launches, {path.stat().st_size / 1e6:.0f} MB")
        gpuprof, page = str(Path(sys.executable).with_name("gpuprof")), str(Path(folder) / "page.html")
        commands = {form: [gpuprof, "show", "--format", form, str(path)] for form in FORMATS}
        commands["page"] = [gpuprof, "report", str(path), "-o", page]
        for form, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{form:6} {time.perf_counter() - start:6.2f} s, peak so far {peak_mb:.0f} MiB")
    return 0


def repeated(data: bytes, wanted: int) -> bytes:
    """Append the last block of launches, which has no string table of its own, until there are `wanted` launches."""
    from gpuprof.read.container import walk

    container = walk(data)
    launches = container.results
    start, end = last_block(data)
    block = data[start:end]
    return data + block * max(0, wanted - launches)


def last_block(data: bytes) -> tuple[int, int]:
    """Return where the last block of a report that holds one launch lies."""
    at, block = 8 + int.from_bytes(data[4:8], "little"), (0, 0)
    from gpuprof.read.container import walk

    spans = walk(data).spans
    last = spans[-1]
    while at < len(data):
        header = int.from_bytes(data[at : at + 4], "little")
        payload_start = at + 4 + header
        following = [span for span in spans if span.start >= payload_start]
        end = len(data)
        for other in following[:1]:
            end = other.end
        if following and following[0] == last:
            block = (at, last.end)
            break
        at = end if following else len(data)
    return block


if __name__ == "__main__":
    sys.exit(main())
