"""The notes on a session: set-up, whole graphs, kinds, versions, clocks, ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.ranking import is_counted
from gpuprof.diagnose.rules.stores_nothing import STORES_NOTHING
from gpuprof.diagnose.verdict import first_proven, run_findings
from gpuprof.hardware.specs import is_geforce_rtx
from gpuprof.model.clocks_apart import clocks_apart
from gpuprof.model.denominators import amount
from gpuprof.model.headline import listed
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.run_totals import is_part
from gpuprof.model.session import Denominator, Device, KernelProfile, RunVerdict, Session
from gpuprof.model.set_up import Role, roles_of, set_up_kernels
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.units import format_percent, format_si
from gpuprof.words.exclusion import exclusion_text
from gpuprof.words.sentences import capital, full_stop, short_list
from gpuprof.words.verdict import of_the_run, only_role

_MOST = 0.5
"""Two reports that share at least half of their kernels' names can be versions of one program."""
_SHOWN = 3
_LEAST_KINDS, _KINDS_SHOWN = 3, 5
_LEAST_SHARE = 0.005
_ANOTHER_GPU = ("product", "units")
_ONLY_SET_UP: dict[Role | None, str] = {
    "data": "Only random numbers, fills and copies were profiled: the kernels that use them come later.",
    "warm-up": "Only warm-up was profiled: the work is launched later.",
    "try": "Only autotuner trials were profiled: the kernel that the autotuner chooses is launched later.",
    None: "Only set-up was profiled, such as data, warm-up and autotuner trials: the work is launched later.",
}
"""By the role that all kernels have; None if they have several."""


def notes(session: Session, verdict: RunVerdict) -> Iterator[str]:
    """Yield the notes on a session."""
    kernel = session.numbered(verdict.kernel)
    yield from _without_spec(session)
    for finding, of_kernel in run_findings(session):
        if finding.id != verdict.run_finding:
            yield of_the_run(session, finding, of_kernel)
    yield from _set_up(session)
    yield from _whole_graphs(session.kernels)
    yield from _kinds(session.kernels)
    yield from _versions(session)
    yield from clock_notes(session)
    # Several GPUs of one kind differ from their spec alike.
    yield from dict.fromkeys(text for device in session.devices for text in _other_product(device, session))
    if session.excluded is not None:
        yield exclusion_text(session.excluded)
    if kernel is not None:
        yield from _counted_beside(session, kernel)
        yield from _without_stores(kernel)


def _set_up(session: Session) -> Iterator[str]:
    """Note that nothing but set-up was profiled, or its share of the time."""
    kernels = session.kernels
    ids = set_up_kernels(kernels)
    set_up = [kernel for kernel in kernels if kernel.id in ids]
    share = sum(kernel.time_share or 0.0 for kernel in set_up)
    if set_up and len(set_up) == len(kernels):
        if not is_part(session):
            yield _ONLY_SET_UP[only_role(set_up)]
    elif share >= _LEAST_SHARE:
        what = "set up data" if roles_of(set_up) == {"data"} else "set up data or warm up"
        how = "were profiled, too"
        if all(kernel.time_total_s is not None for kernel in kernels):
            how = f"take {format_percent(min(1.0, share))} of the time"
        yield f"Kernels that only {what} {how}; their fixes come last."


def _without_spec(session: Session) -> Iterator[str]:
    """Note the unknown ceilings of GPUs with counters and no spec, and how to give one."""
    counted = {kernel.device for kernel in session.kernels if kernel.throughput or kernel.work}
    for device in session.devices:
        if device.spec is not None or device.id not in counted:
            continue
        if device.name is None:
            yield "The report does not name its GPU: no tensor, FP64 or FP16 ceiling is known. Name a spec with --spec."
        elif is_geforce_rtx(device.name):
            yield f"{device.name} has no spec: its tensor and FP64 ceilings are those of other GeForce RTX cards."
        else:
            yield (
                f"{device.name} has no spec: no tensor, FP64 or FP16 ceiling is known, unless the report has it. "
                "Give one with --spec FILE."
            )


def _whole_graphs(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    """Note that the time of a CUDA graph profiled as a whole is not the time of its kernels."""
    graphs = [kernel for kernel in kernels if kernel.duration_source == GRAPH_REPLAY]
    if not graphs:
        return
    label, *others = dict.fromkeys(kernel.label for kernel in graphs)
    which = f"{label} is a whole CUDA graph"
    if others:
        which = f"{len(others) + 1} entries are whole CUDA graphs"
    beside = any(kernel.time_total_s is None for kernel in graphs)
    no_share = ", and has no share of theirs" if beside else ""
    yield (
        f"{which}. Its time is that of a replay under ncu, with the gaps before and between the "
        "nodes; all rates are over that time. It is not the time of its kernels"
        f"{no_share}: ncu --graph-profiling node measures these."
    )


def _counted_beside(session: Session, named: KernelProfile) -> Iterator[str]:
    """Note the first finding of the other kernels if no durations show which kernel matters."""
    if any(kernel.time_total_s is not None for kernel in session.kernels):
        return
    headlines = {}
    for kernel in session.kernels:
        finding = first_proven(kernel)
        if finding is not None and is_counted(finding) and kernel.function_name != named.function_name:
            headlines[kernel.function_name] = finding.headline
    for name, headline in [*headlines.items()][:_SHOWN]:
        yield full_stop(f"{name}: {headline}")


def _without_stores(kernel: KernelProfile) -> Iterator[str]:
    """Note that a kernel stores nothing if it is not known whether it should."""
    for finding in kernel.findings:
        if finding.rule == STORES_NOTHING and finding.severity == "info":
            yield f"{kernel.function_name} stores nothing: if it should, check what it computes before its speed."


def _kinds(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    """Note the kinds of kernels that take most time, if several known kinds take half of it."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        kind = kind_named(kernel.kind)
        if kind is not None and kernel.time_share:
            shares[kind.title] = shares.get(kind.title, 0.0) + kernel.time_share
    if len(shares) < _LEAST_KINDS or sum(shares.values()) < _MOST:
        return
    largest = sorted(shares.items(), key=lambda item: -item[1])[:_KINDS_SHOWN]
    rest = 1.0 - sum(share for _, share in largest)
    texts = [f"{title} {format_percent(min(1.0, share))}" for title, share in largest]
    if rest >= _LEAST_SHARE:
        texts.append(f"others {format_percent(rest)}")
    yield f"By kind: {', '.join(texts)}."


def _versions(session: Session) -> Iterator[str]:
    """Note which reports have the same kernels, unless they are ranks or a survey of one run."""
    if session.timeline is not None or any(source.is_survey for source in session.sources):
        return
    names: dict[int, set[str]] = {}
    for kernel in session.kernels:
        if kernel.rank is None:
            names.setdefault(kernel.source, set()).add(kernel.name)
    for source in names:
        alike = _alike(source, names)
        if len(alike) == 1:
            continue
        files = [session.sources[number].file for number in alike]
        more = len(files) - _SHOWN
        if more > 0:
            files = [*files[:_SHOWN], f"{more} more"]
        yield (
            f"{listed(files)} have the same kernels. If they are versions of one program, read "
            "them side by side: their times do not add up, and shares are of all together."
        )
        return


def _alike(source: int, names: dict[int, set[str]]) -> list[int]:
    """Return a report and those after it with at least half of the smaller one's kernels in common."""
    alike = []
    for other, theirs in names.items():
        fewer = min(len(names[source]), len(theirs))
        if other >= source and len(names[source] & theirs) >= _MOST * fewer:
            alike.append(other)
    return alike


def _other_product(device: Device, session: Session) -> Iterator[str]:
    """Note that a report is of another product than its spec, or of a part of one."""
    reasons: dict[str, list[Denominator]] = {}
    for check in session.denominators:
        if check.device == device.id and check.disagreement in _ANOTHER_GPU:
            reasons.setdefault(check.reason or check.disagreement, []).append(check)
    gpu = device.name or f"GPU {device.id}"
    spec = f"the spec {device.spec}" if device.spec else "its architecture's spec"
    for reason, checks in reasons.items():
        numbers = short_list(list(map(_numbers, checks)), _SHOWN)
        yield f"{gpu} differs from {spec}: {numbers}. {full_stop(capital(reason))}"


def _numbers(check: Denominator) -> str:
    implied = amount(check.implied, check.measure)
    return f"{check.unit} {implied} against {amount(check.specified, check.measure)}"


def clock_notes(session: Session) -> Iterator[str]:
    """Note for each GPU the launches at different clocks, whose times do not compare."""
    for pair in clocks_apart(session):
        dram = ""
        if pair.dram is not None:
            slow, fast = pair.dram
            dram = f"{_clock(slow, slow.dram_clock_hz)} and {_clock(fast, fast.dram_clock_hz)}"
        if pair.sm is not None:
            yield _sm_clocks(session, *pair.sm, is_other_time=pair.is_other_time, dram=dram)
        elif dram:
            yield f"DRAM ran at different clocks: {dram}. Compare percentages, not times."


def _sm_clocks(
    session: Session,
    slow: KernelProfile,
    fast: KernelProfile,
    *,
    is_other_time: bool,
    dram: str,
) -> str:
    """Write the slowest and the fastest SM clock, and what to compare instead of times."""
    both = f"{_clock(slow, slow.sm_clock_hz)} and {_clock(fast, fast.sm_clock_hz)}"
    if is_other_time:
        return (
            f"Cycles over time give SM clocks of {both}. DRAM clocks would differ as much, so neither "
            f"changed: the time of #{slow.id} includes a part that no counter covers. "
            "Compare cycles, not times."
        )
    if dram:
        return (
            f"SM clocks differ ({both}), and so do DRAM clocks ({dram}). Compare percentages, not "
            "times, or profile again after a warm-up."
        )
    controls = {session.sources[kernel.source].clock_control for kernel in (slow, fast)}
    differ = "SM clocks differ"
    remedy = ""
    if "none" in controls:
        remedy = ", or profile again with ncu --clock-control base"
    elif controls <= {"base", "locked"}:
        differ += " although ncu locked them"
        remedy = ", or profile again after a warm-up"
    return f"{differ}: {both}. Compare cycles, not times{remedy}."


def _clock(kernel: KernelProfile, clock_hz: float | None) -> str:
    return f"{format_si(clock_hz or 0.0, 'Hz')} in {kernel.label} (#{kernel.id})"
