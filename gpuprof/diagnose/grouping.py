"""A session with equal launches as one kernel each: shares, gains and the verdict are then those of the groups."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.diagnose.summary import summarised
from gpuprof.model.counts import spanning
from gpuprof.model.groups import collected, kind_of_kernel, middle, spread
from gpuprof.model.launch_times import merged_times
from gpuprof.model.run_totals import busy_share
from gpuprof.model.session import KernelProfile, Session


def grouped(session: Session) -> Session:
    """Return the session with equal launches as one kernel each: the launch of median duration speaks for the group.

    A group keeps the number of that launch; `launches`, the total time, its share, the spread and the gains for the
    run are the group's. A session without equal launches comes back as it is.
    """
    groups = collected((kind_of_kernel(kernel, kernel.demangled), kernel) for kernel in session.kernels)
    if len(groups) == len(session.kernels):
        return session
    busy = busy_share(session)
    kernels = tuple(_merged(group, busy) for group in groups)
    return summarised(replace(session, kernels=kernels))


def _merged(group: Sequence[KernelProfile], busy: float) -> KernelProfile:
    if len(group) == 1:
        return group[0]
    durations = [kernel.duration_s for kernel in group]
    speaker = group[middle(durations)]
    times = [kernel.time_total_s for kernel in group if kernel.time_total_s is not None]
    shares = [kernel.time_share for kernel in group if kernel.time_share is not None]
    share = sum(shares) if shares else None
    findings = tuple(
        replace(finding, gain_total=finding.gain_kernel * share * busy)
        if finding.gain_kernel is not None and share is not None
        else finding
        for finding in speaker.findings
    )
    return replace(
        speaker,
        launches=sum(kernel.launches for kernel in group),
        time_total_s=sum(times) if times else None,
        time_share=share,
        duration_percentiles_s=spread(durations),
        launch_times=merged_times(group),
        counts=spanning(speaker.counts, (kernel.counts for kernel in group)),
        findings=findings,
    )
