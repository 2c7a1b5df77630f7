"""Two counts of the same kernels held against each other, in reports that anybody recorded.

The FLOP of FP64, FP32 and FP16 come from counters and from the opcode histogram; tensor FLOP from the histogram,
divided by what the pipe can do in the kernel's cycles, must be the busy share of the tensor pipe. Neither knows what
the kernel does; that both are wrong alike is unlikely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpuprof.errors import GpuprofError
from gpuprof.hardware.certificates import (
    CHECKED_TOLERANCE,
    Agreement,
    Certificate,
    base_names,
    ratio,
    release_of,
)
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, CounterLink
from gpuprof.hardware.trust import CHECKED
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.ceilings import Hardware, blended_rate
from gpuprof.model.quantities import Clocks, Counted, evaluate, tensor_split
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.files import read_file

SCALAR = ("work.fp64", "work.fp32", "work.fp16")
PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
CYCLES = "sm__cycles_active.avg"
LEAST_BUSY = 5.0
"""Percent: below it the pipe's share has too few digits to compare with."""


class Equality(NamedTuple):
    """One kernel of a report: a quantity by its counters, what it was held against, and their quotient."""

    arch: str
    release: str
    quantity: str
    counters: frozenset[str]
    known: str
    ratio: float
    report: str


def equalities(paths: Iterable[Path]) -> Iterator[Equality]:
    """Yield every comparison that these reports allow; files that are no reports have none."""
    finder = HardwareFinder()
    for path in paths:
        try:
            report = read_file(str(path))
        except GpuprofError:
            continue
        release = release_of(report.tool_version) if isinstance(report, Report) else None
        if not isinstance(report, Report) or release is None:
            continue
        for launch in report:
            hardware = finder(report.devices[launch.device])
            comparisons = (*_scalar(launch, hardware), *_tensor(launch, hardware))
            yield from (
                Equality(
                    arch=hardware.arch.name,
                    release=release,
                    quantity=quantity,
                    counters=counters,
                    known=known,
                    ratio=quotient,
                    report=path.name.partition(".")[0],
                )
                for quantity, counters, known, quotient in comparisons
            )


def _scalar(launch: Launch, hardware: Hardware) -> Iterator[tuple[str, frozenset[str], str, float]]:
    """Hold each counter link of a scalar path against the histogram, and the histogram against the first of them."""
    clocks = _clocks(launch, hardware)
    for quantity in SCALAR:
        links = hardware.arch.counters.get(quantity, ())
        by_opcodes = [link for link in links if link.how == "thread-opcodes"]
        histogram = _value(by_opcodes[0], quantity, launch, clocks) if by_opcodes else None
        values = [_value(link, quantity, launch, clocks) for link in links if link not in by_opcodes]
        counters = [count for count in values if count is not None and count.value > 0]
        if histogram is None or not histogram.value or not counters:
            continue
        for count in counters:
            yield quantity, base_names(count.metrics), "opcode histogram", ratio(count.value, histogram.value)
        yield quantity, base_names([THREAD_OPCODES]), "counters", ratio(histogram.value, counters[0].value)


def _value(link: CounterLink, quantity: str, launch: Launch, clocks: Clocks) -> Counted | None:
    count = evaluate((link,), quantity, launch.metrics, clocks)
    return count if isinstance(count, Counted) else None


def _clocks(launch: Launch, hardware: Hardware) -> Clocks:
    values = {
        what: evaluate(hardware.arch.counters[what], what, launch.metrics, Clocks())
        for what in ("duration", "sm-clock")
    }
    duration, clock = (count.value if isinstance(count, Counted) else None for count in values.values())
    return Clocks(duration_s=duration, sm_hz=clock)


def _tensor(launch: Launch, hardware: Hardware) -> Iterator[tuple[str, frozenset[str], str, float]]:
    """Hold tensor FLOP by opcodes against the busy share of the pipe, where the kernel has one tensor path."""
    split = tensor_split(launch.metrics)
    busy, cycles, sms = launch.metrics.number(PIPE), launch.metrics.number(CYCLES), hardware.sm_count()
    done = {key: flop for key, flop in (split or {}).items() if flop}
    paths = {key.path for key in done}
    if len(paths) != 1 or busy is None or busy < LEAST_BUSY or not cycles or not sms or None in (split or {}).values():
        return
    (path,) = paths
    rate = blended_rate(path, done, hardware.rates)
    if rate is not None:
        share = sum(done.values()) / (rate.value * sms * cycles)
        yield f"work.{path}", base_names([WARP_OPCODES]), "busy share of the tensor pipe", ratio(100 * share, busy)


def certificates_of(checked: Iterable[Equality], date: str) -> list[Certificate]:
    """Return one certificate per architecture; what is further off than the tolerance vouches for nothing in it."""
    by_arch: dict[str, list[Equality]] = defaultdict(list)
    for equality in checked:
        by_arch[equality.arch].append(equality)
    return [
        Certificate(
            arch=arch,
            level=CHECKED,
            ncu=tuple(sorted({equality.release for equality in mine})),
            gpu=None,
            driver=None,
            date=date,
            agreements=tuple(_agreements(mine)),
            file="",
        )
        for arch, mine in sorted(by_arch.items())
    ]


def _agreements(checked: list[Equality]) -> Iterator[Agreement]:
    kinds: dict[tuple[str, frozenset[str], str], list[Equality]] = defaultdict(list)
    for equality in checked:
        kinds[equality.quantity, equality.counters, equality.known].append(equality)
    for (quantity, counters, known), mine in kinds.items():
        ratios = [equality.ratio for equality in mine]
        reports = ", ".join(sorted({equality.report for equality in mine}))
        yield Agreement(
            quantity=quantity,
            counters=counters,
            known=known,
            lowest=min(ratios),
            highest=max(ratios),
            cases=len(mine),
            source=f"public reports {reports}",
        )


def rows(certificates: Iterable[Certificate]) -> Iterator[str]:
    """Yield the table: per architecture and quantity, the kernels, the worst deviation, and whether it is enough."""
    yield f"{'arch':8} {'quantity':18} {'counters':58} {'kernels':>7} {'worst':>8}"
    for certificate in certificates:
        for agreement in sorted(
            certificate.agreements, key=lambda agreement: (agreement.quantity, sorted(agreement.counters))
        ):
            names = ", ".join(sorted(agreement.counters))
            short = names if len(names) <= 58 else names[:57] + "…"
            verdict = "" if agreement.deviation <= CHECKED_TOLERANCE else "  too far off"
            worst = f"{100 * agreement.deviation:7.3f} %{verdict}"
            yield f"{certificate.arch:8} {agreement.quantity:18} {short:58} {agreement.cases:7} {worst}"
