"""Launches of the same kernel as one: same name, grid, block and ranges on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuprof.diagnose.ranking import ranking
from gpuprof.model.session import DurationSpread, KernelProfile, Session


def grouped(session: Session) -> Session:
    """Return the session with equal launches as one kernel each: the launch of median duration speaks for the group.

    A group keeps the number of that launch; `launches`, the total time, its share, the spread and the gains for the
    run are the group's. A session without equal launches comes back as it is.
    """
    groups: dict[tuple[object, ...], list[KernelProfile]] = {}
    for kernel in session.kernels:
        groups.setdefault(_kind(kernel), []).append(kernel)
    if len(groups) == len(session.kernels):
        return session
    kernels = tuple(_merged(group) for group in groups.values())
    return replace(session, kernels=kernels, ranking=ranking(kernels))


def _kind(kernel: KernelProfile) -> tuple[object, ...]:
    """Return what equal launches share; a launch of unknown grid is like no other."""
    if kernel.grid is None or kernel.block is None:
        return (kernel.id,)
    return kernel.source, kernel.device, kernel.demangled, kernel.grid, kernel.block, kernel.ranges


def _merged(group: Sequence[KernelProfile]) -> KernelProfile:
    if len(group) == 1:
        return group[0]
    durations = sorted(
        (kernel.duration_s, index) for index, kernel in enumerate(group) if kernel.duration_s is not None
    )
    middle = group[durations[(len(durations) - 1) // 2][1]] if durations else group[0]
    times = [kernel.time_total_s for kernel in group if kernel.time_total_s is not None]
    shares = [kernel.time_share for kernel in group if kernel.time_share is not None]
    share = sum(shares) if shares else None
    findings = tuple(
        replace(finding, gain_total=finding.gain_kernel * share)
        if finding.gain_kernel is not None and share is not None
        else finding
        for finding in middle.findings
    )
    return replace(
        middle,
        launches=sum(kernel.launches for kernel in group),
        time_total_s=sum(times) if times else None,
        time_share=share,
        duration_percentiles_s=_spread([duration for duration, _ in durations]) if durations else None,
        findings=findings,
    )


def _spread(durations: Sequence[float]) -> DurationSpread:
    return DurationSpread(
        durations[0], percentile(durations, 50), percentile(durations, 95), percentile(durations, 99), durations[-1]
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile: the smallest value that at least so many percent do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]
