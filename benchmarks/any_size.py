"""Measures gpuprof on reports of any size, beside real ncu on the same files, against the aims for them.

`python -m benchmarks.any_size [--ncu NCU] [--reports FOLDER] [--pairs N] [--quick] [--only WORD]` measures, each run a
process of its own: the real reports, in turns with ncu, without and with what an earlier run has kept; then reports
made of them (`large_reports.py`) with up to 100,000 launches, and sessions of those (`again`). `--quick` takes the real
ones and the smallest made one. Wall time and memory are held against the aims, which are for two cores; fails where one
is missed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.large_reports import write_large
from benchmarks.measured_runs import GB, MB, Limits, Run, described, measured, one_after_the_other, ratio
from benchmarks.raw_fields import raw_fields
from gpuprof.read.container import walk

REPORTS = Path(__file__).resolve().parents[2] / "shared" / "reports"
BASIC, FULL = "esmm-research-profile.ncu-rep", "sglang-profile.ncu-rep"
SMALLER = "gpu_workshop-MW_DivToMult.ncu-rep"
"""What large reports are made of: a report of few counters, and two of full sets with code, the last with fewer."""
GPUPROF = [sys.executable, "-m", "gpuprof"]
VIEWS = {
    "table": ["show", "--no-config", "REPORT"],
    "json": ["show", "--no-config", "--format", "json", "REPORT"],
    "csv": ["show", "--no-config", "--format", "csv", "REPORT"],
    "md": ["show", "--no-config", "--format", "md", "REPORT"],
    "page": ["report", "--no-config", "--force", "REPORT", "-o", "PAGE"],
}
NCU_DETAILS = ["--import", "REPORT", "--page", "details"]
NCU_VIEWS = {
    "table": [NCU_DETAILS, ["--import", "REPORT", "--page", "source", "--csv"]],
    "json": [[*NCU_DETAILS, "--csv"], ["--import", "REPORT", "--page", "source", "--csv"]],
}
"""What ncu prints of the same: a table, and lines and instructions, where there is code."""
MOST_OF_NCU = 0.5
"""Of ncu's time: at most so much is the aim."""
_SOURCE_BINARY = 4
"""The field of a source in a report that holds compiled code."""
_USAGE = 2
_MISSED = "MISSED"


@dataclass(frozen=True, slots=True)
class Aim:
    """At most so many seconds, and so much memory of all processes together."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Case:
    """A report to make, and the aims of the views that are measured on it; `session` is that of a table of its JSON."""

    name: str
    source: str
    launches: int
    aims: Mapping[str, Aim | None]
    session: Aim | None = None
    is_quick: bool = False


CASES = (
    Case(
        name="full set, 200 launches", source=FULL, launches=200, aims={"table": None, "json": None}, is_quick=True
    ),
    Case(name="full set, 1,000 launches", source=FULL, launches=1_000, aims={"table": Aim(2, 300 * MB), "json": None}),
    Case(name="full set, 5,000 launches", source=FULL, launches=5_000, aims={"table": Aim(8, 500 * MB)}),
    Case(
        name="full set of a V100, 5,000 launches", source=SMALLER, launches=5_000, aims={"table": Aim(8, 500 * MB)}
    ),
    Case(
        name="basic set, 10,000 launches",
        source=BASIC,
        launches=10_000,
        aims={
            "table": Aim(3, 400 * MB), "page": Aim(4, 400 * MB), "json": Aim(5, 400 * MB), "csv": None, "md": None
        },
        session=Aim(1, 100 * MB),
    ),
    Case(
        name="basic set, 100,000 launches",
        source=BASIC,
        launches=100_000,
        aims={"table": Aim(30, 1 * GB)},
        session=Aim(6, 500 * MB),
    ),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each view of each report took; 1 if an aim is missed, 2 if there is nothing to measure."""
    options = _options().parse_args(arguments)
    reports = sorted(path for path in options.reports.glob("*rep*") if path.is_file())
    if not reports:
        sys.stderr.write(f"no reports in {options.reports}\n")
        return _USAGE
    limits = Limits(options.limit_s, options.limit_gb * GB)
    with tempfile.TemporaryDirectory() as folder:
        lines = [] if options.made_only else list(real_lines(reports, options, limits, Path(folder)))
        missed = [line for line in lines if line.endswith(_MISSED)]
        for case in CASES:
            if (options.quick and not case.is_quick) or options.only not in case.name:
                continue
            for line, is_reached in made_lines(case, options, limits, Path(folder)):
                missed += [] if is_reached is not False else [line]
    print(f"aims: {len(missed)} missed" + "".join(f"\n  {line.strip()}" for line in missed))
    return 1 if missed else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.any_size", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--ncu", default=shutil.which("ncu"), help="an ncu; none: gpuprof alone is measured")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="folder of real reports")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each, in turns")
    parser.add_argument("--quick", action="store_true", help="the real reports, and the smallest made one")
    parser.add_argument("--made-only", action="store_true", help="without the real reports")
    parser.add_argument("--only", default="", metavar="WORD", help="made reports with WORD in their name")
    parser.add_argument("--limit-s", type=float, default=900, help="ends a run that takes longer")
    parser.add_argument("--limit-gb", type=float, default=8, help="ends a run that takes more memory")
    return parser


def real_lines(reports: Sequence[Path], options: argparse.Namespace, limits: Limits, folder: Path) -> Iterator[str]:
    """Print and yield a line a report and view: medians, and the median ratio to ncu by pairs, cold and warm."""
    print(
        f"{'report':38} {'view':6} {'cold':>8} {'warm':>8} {'ncu':>8} {'cold÷ncu':>9} {'warm÷ncu':>9}  processor time"
    )
    for report in reports:
        for view, of_ncu in NCU_VIEWS.items():
            page = folder / "page.html"
            mine = GPUPROF + filled(VIEWS[view], report, page)
            pages = of_ncu if has_code(report) else of_ncu[:1]
            theirs = [[options.ncu, *filled(arguments, report, page)] for arguments in pages] if options.ncu else []
            cold, warm, other = in_turns(mine, theirs, options.pairs, limits, folder)
            line = f"{report.name[:38]:38} {view:6} {_median(cold)} {_median(warm)} {_median(other)}"
            line += f" {_ratio(cold, other)} {_ratio(warm, other)}  {_verdict(cold, warm, other)}"
            print(line, flush=True)
            yield line


def has_code(report: Path) -> bool:
    """Tell whether a report embeds compiled code."""
    data = report.read_bytes()
    sources = (data[start:end] for start, end in walk(data).sources)
    return any(field == _SOURCE_BINARY for source in sources for field, _, _ in raw_fields(source))


def in_turns(
    mine: list[str], theirs: Sequence[list[str]], pairs: int, limits: Limits, folder: Path
) -> tuple[list[Run], list[Run], list[Run]]:
    """Run both in turns, which of them begins in turns too: gpuprof with an empty cache, with a filled one, and ncu.

    Commands of ncu, whose pages say together what gpuprof says at once, count as one run.
    """
    filled_cache = folder / "kept"
    runs: dict[str, list[Run]] = {"cold": [], "warm": [], "ncu": []}
    measured(mine, limits, filled_cache)
    for turn in range(pairs):
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            order = [("cold", [mine], Path(empty)), ("warm", [mine], filled_cache), ("ncu", theirs, Path(empty))]
            for name, commands, cache in order if turn % 2 == 0 else reversed(order):
                if commands:
                    runs[name].append(one_after_the_other([measured(command, limits, cache) for command in commands]))
    return runs["cold"], runs["warm"], runs["ncu"]


def made_lines(
    case: Case, options: argparse.Namespace, limits: Limits, folder: Path
) -> Iterator[tuple[str, bool | None]]:
    """Make a report, and print and yield a line a view of it, with whether its aim was reached; None without one."""
    source, report, page = options.reports / case.source, folder / "made.ncu-rep", folder / "page.html"
    if not source.is_file():
        line = f"{case.name}: {source.name} is not there, from which it is made"
        print(line)
        yield line, False
        return
    with report.open("wb") as file:
        write_large(source.read_bytes(), file, case.launches, max(1, case.launches // 10))
    print(f"{case.name}, {report.stat().st_size / MB:.0f} MB")
    measures = [(view, report, aim) for view, aim in case.aims.items()]
    session = folder / "session.json"
    if case.session is not None:
        write_session(report, session, limits, folder / "kept")
        measures.append(("table", session, case.session))
    for view, shown, aim in measures:
        run = measured(GPUPROF + filled(VIEWS[view], shown, page), limits, folder / "kept")
        is_reached = None if aim is None else reached(run, aim)
        line = f"  {view if shown == report else 'again':6} {described(run)}; {_aim_text(aim, is_reached)}"
        print(line, flush=True)
        yield f"{case.name}: {line.strip()}", is_reached
    session.unlink(missing_ok=True)
    if options.ncu:
        # Not its page of sources: that of 200 launches takes it minutes.
        run = measured([options.ncu, *filled(NCU_DETAILS, report, page)], limits, folder / "kept")
        print(f"  ncu --page details: {described(run)}", flush=True)
    report.unlink()


def write_session(report: Path, session: Path, limits: Limits, cache: Path) -> None:
    """Write the JSON of a report; where that fails, the session is none, and showing it fails, too."""
    measured(
        ["sh", "-c", 'exec "$@" > "$0"', str(session), *GPUPROF, *filled(VIEWS["json"], report, session)], limits, cache
    )


def filled(arguments: Sequence[str], report: Path, page: Path) -> list[str]:
    """Return a command's arguments with the files in their places."""
    return [{"REPORT": str(report), "PAGE": str(page)}.get(argument, argument) for argument in arguments]


def reached(run: Run, aim: Aim) -> bool:
    """Tell whether a run kept to an aim; one that failed, or whose memory is not known, did not."""
    return run.failure is None and run.seconds <= aim.seconds and (run.tree_bytes or aim.bytes + 1) <= aim.bytes


def _aim_text(aim: Aim | None, is_reached: bool | None) -> str:
    if aim is None:
        return "no aim"
    return f"aim {aim.seconds:g} s, {aim.bytes / MB:g} MB: {'reached' if is_reached else _MISSED}"


def _median(runs: Sequence[Run]) -> str:
    if not runs or any(run.failure for run in runs):
        return f"{'failed' if runs else '–':>8}"
    return f"{statistics.median(run.seconds for run in runs) * 1e3:5.0f} ms"


def _ratio(mine: Sequence[Run], theirs: Sequence[Run]) -> str:
    value = ratio(mine, theirs)
    return f"{value:9.2f}" if value is not None else f"{'–':>9}"


def _verdict(cold: Sequence[Run], warm: Sequence[Run], other: Sequence[Run]) -> str:
    """Say how processor times compare; a line that ends with "MISSED" is an aim missed, by what is looked at again."""
    if any(run.failure for run in (*cold, *warm)):
        return _MISSED
    by_time, by_processor = ratio(warm, other), ratio(cold, other, "processor_seconds")
    if by_time is None or by_processor is None:
        return "not compared"
    return f"{by_processor:.2f} of ncu's: {_MISSED if by_time > MOST_OF_NCU else 'reached'}"


if __name__ == "__main__":
    sys.exit(main())
