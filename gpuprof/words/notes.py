"""The notes on a session, in sentences: set-up, whole graphs, kinds, versions, clocks, ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.clocks import ClockPair, clocks_apart
from gpuprof.diagnose.effects import STORES_NOTHING
from gpuprof.diagnose.ranking import is_counted
from gpuprof.diagnose.set_up import Role, roles_of, set_up_kernels
from gpuprof.diagnose.verdict import first_proven, run_findings
from gpuprof.hardware.specs import is_geforce_rtx
from gpuprof.model.denominators import amount
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.run_totals import is_part
from gpuprof.model.session import Denominator, Device, KernelProfile, RunVerdict, Session
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.units import format_percent, format_si
from gpuprof.words.exclusion import exclusion_text
from gpuprof.words.sentences import capital, full_stop
from gpuprof.words.verdict import of_the_run, only_role

_MOST = 0.5
"""Two reports that share at least half of their kernels' names can be versions of one program."""
_MOST_SHOWN = 3
_LEAST_KINDS, _KINDS_SHOWN = 3, 5
_LEAST_SHARE = 0.005
_LOCKED = ("base", "locked")
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
    yield from _counted_beside(session, kernel)
    yield from _of_no_effect(kernel)


def _set_up(session: Session) -> Iterator[str]:
    """Say that nothing but set-up was profiled, or its share of the time if all kernels have times."""
    kernels = session.kernels
    set_up = set_up_kernels(kernels)
    those = [kernel for kernel in kernels if kernel.id in set_up]
    share = sum(kernel.time_share or 0.0 for kernel in those)
    all_timed = all(kernel.time_total_s is not None for kernel in kernels)
    if those and len(those) == len(kernels):
        if not is_part(session):
            yield _ONLY_SET_UP[only_role(those)]
    elif share >= _LEAST_SHARE:
        what = "set up data" if roles_of(those) == {"data"} else "set up data or warm up"
        how = f"take {format_percent(min(1.0, share))} of the time" if all_timed else "were profiled, too"
        yield f"Kernels that only {what} {how}; their fixes come last."


def _without_spec(session: Session) -> Iterator[str]:
    """Say which ceilings are not known of a GPU that has counters and no spec, and how to give one."""
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
    """Say that the time of a CUDA graph profiled as a whole is not the time of its kernels."""
    graphs = [kernel for kernel in kernels if kernel.duration_source == GRAPH_REPLAY]
    if not graphs:
        return
    labels = [*dict.fromkeys(kernel.label for kernel in graphs)]
    which = f"{labels[0]} is a whole CUDA graph" if len(labels) == 1 else f"{len(labels)} entries are whole CUDA graphs"
    beside = any(kernel.time_total_s is None for kernel in graphs)
    no_share = ", and has no share of theirs" if beside else ""
    yield (
        f"{which}. Its time is that of a replay under ncu, with the gaps before and between the nodes; all rates are "
        f"over that time. It is not the time of its kernels{no_share}: ncu --graph-profiling node measures these."
    )


def _counted_beside(session: Session, named: KernelProfile | None) -> Iterator[str]:
    """Yield the first finding of the other kernels if no durations show which kernel matters."""
    if named is None or any(kernel.time_total_s is not None for kernel in session.kernels):
        return
    counted = {
        kernel.label: finding
        for kernel in session.kernels
        for finding in [first_proven(kernel)]
        if finding is not None and is_counted(finding) and kernel.label != named.label
    }
    for label, finding in [*counted.items()][:_MOST_SHOWN]:
        yield full_stop(f"{label}: {finding.headline}")


def _of_no_effect(kernel: KernelProfile | None) -> Iterator[str]:
    """Say that a kernel stores nothing if it is not known whether it should."""
    findings = kernel.findings if kernel is not None else ()
    for finding in findings:
        if kernel is not None and finding.rule == STORES_NOTHING and finding.severity == "info":
            yield f"{kernel.label} stores nothing: if it should, check what it computes before its speed."


def _kinds(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    """Say which kinds of kernels take the time, if most of it belongs to several known kinds."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        kind = kind_named(kernel.kind)
        if kind is not None and kernel.time_share:
            shares[kind.title] = shares.get(kind.title, 0.0) + kernel.time_share
    if len(shares) < _LEAST_KINDS or sum(shares.values()) < _MOST:
        return
    largest = sorted(shares.items(), key=lambda item: -item[1])[:_KINDS_SHOWN]
    rest = 1.0 - sum(share for _, share in largest)
    listed = ", ".join(f"{title} {format_percent(min(1.0, share))}" for title, share in largest)
    yield f"By kind: {listed}{f', others {format_percent(rest)}' if rest >= _LEAST_SHARE else ''}."


def _versions(session: Session) -> Iterator[str]:
    """Say which reports hold the same kernels, unless they are ranks of one run, or one timed what the other counts."""
    if session.timeline is not None or any(source.is_survey for source in session.sources):
        return
    names: dict[int, set[str]] = {}
    for kernel in session.kernels:
        if kernel.rank is None:
            names.setdefault(kernel.source, set()).add(kernel.name)
    alike = next((group for group in (_alike(source, names) for source in names) if len(group) > 1), [])
    if alike:
        files = [session.sources[source].file for source in alike]
        more = len(files) - _MOST_SHOWN
        shown = [*files[:_MOST_SHOWN], f"{more} more"] if more > 0 else files
        yield (
            f"{', '.join(shown[:-1])} and {shown[-1]} hold the same kernels. If they are versions of one program, read "
            "them side by side: their times do not add up, and shares are of all together."
        )


def _alike(source: int, names: dict[int, set[str]]) -> list[int]:
    """Return a report and those after it that share at least half of the kernels of the smaller one."""
    return [
        other
        for other in names
        if other == source
        or (other > source and len(names[source] & names[other]) >= _MOST * min(len(names[source]), len(names[other])))
    ]


def _other_product(device: Device, session: Session) -> Iterator[str]:
    """Say that a report is of another product than its spec, or of a part of one, with both numbers."""
    reasons: dict[str, list[Denominator]] = {}
    for check in session.denominators:
        if check.device == device.id and check.disagreement in _ANOTHER_GPU:
            reasons.setdefault(check.reason or check.disagreement, []).append(check)
    gpu = device.name or f"GPU {device.id}"
    spec = f"the spec {device.spec}" if device.spec else "its architecture's spec"
    for reason, checks in reasons.items():
        numbers = ", ".join(map(_numbers, checks[:_MOST_SHOWN]))
        more = f" and {len(checks) - _MOST_SHOWN} more" if len(checks) > _MOST_SHOWN else ""
        yield f"{gpu} differs from {spec}: {numbers}{more}. {full_stop(capital(reason))}"


def _numbers(check: Denominator) -> str:
    return f"{check.unit} {amount(check.implied, check.measure)} against {amount(check.specified, check.measure)}"


def clock_notes(session: Session) -> Iterator[str]:
    """Say of each GPU whether launches ran at clocks that differ, so that their times do not compare."""
    for pair in clocks_apart(session):
        if pair.sm is not None:
            yield _sm_clocks(session, pair)
        elif pair.dram is not None:
            yield f"DRAM ran at different clocks: {_dram_text(*pair.dram)}. Compare percentages, not times."


def _sm_clocks(session: Session, pair: ClockPair) -> str:
    assert pair.sm is not None
    slow, fast = pair.sm
    low, high = (format_si(kernel.sm_clock_hz or 0.0, "Hz") for kernel in (slow, fast))
    both = f"{low} in {_named(slow)} and {high} in {_named(fast)}"
    if pair.is_other_time:
        return (
            f"Cycles over time give SM clocks of {both}. DRAM clocks would differ as much, so neither changed: the "
            f"time of #{slow.id} includes a part that no counter covers. Compare cycles, not times."
        )
    if pair.dram is not None:
        return (
            f"SM clocks differ ({both}), and so do DRAM clocks ({_dram_text(*pair.dram)}). Compare percentages, not "
            "times, or profile again after a warm-up."
        )
    controls = {session.sources[kernel.source].clock_control for kernel in (slow, fast)}
    locked = controls.issubset(_LOCKED)
    remedy = ""
    if "none" in controls:
        remedy = ", or profile again with ncu --clock-control base"
    elif locked:
        remedy = ", or profile again after a warm-up"
    return (
        f"SM clocks differ{' although ncu locked them' if locked else ''}: {both}. Compare cycles, not times{remedy}."
    )


def _dram_text(slow: KernelProfile, fast: KernelProfile) -> str:
    low, high = (format_si(kernel.dram_clock_hz or 0.0, "Hz") for kernel in (slow, fast))
    return f"{low} in {_named(slow)} and {high} in {_named(fast)}"


def _named(kernel: KernelProfile) -> str:
    return f"{kernel.label} (#{kernel.id})"
