"""What is known of the work of one side of a pair: counts, bytes, FLOP and resources, each with its range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.comparison.sides import SideKernel
from gpuprof.model.session import KernelProfile
from gpuprof.model.surveyed import SURVEY

_LARGEST = 1e30
"""What `Number` allows: a sum may come to more."""


class WorkAmount(NamedTuple):
    """A value of one launch, or of a run; `low` and `high` are the least and most of `launches` counted launches.

    `exact` is false for what was computed from a rate or from a percentage of a peak. `summed` are the launches of a
    run whose sum it is.
    """

    value: float
    low: float
    high: float
    unit: str
    metric: str
    launches: int
    exact: bool = True
    additive: bool = True
    summed: float = 1.0

    def times(self, factor: float) -> WorkAmount:
        """Return the same of so many launches."""
        return self._replace(
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            summed=self.summed * factor,
        )


def amounts_of(kernels: Sequence[SideKernel], *, per_run: bool, exact: bool = True) -> dict[str, WorkAmount]:
    """Return what a launch of a kernel does, or what all of a run's launches of all these kernels do.

    Of several kernels there is no resource, and no count that one of them lacks. What was printed with few digits is
    not `exact`.
    """
    every = [_of_kernel(kernel) for kernel in kernels]
    if per_run:
        every = [
            {name: amount.times(kernel.launches) if amount.additive else amount for name, amount in own.items()}
            for kernel, own in zip(kernels, every, strict=True)
        ]
    if len(every) != 1:
        every = [_summed(every)]
    known = {name: amount for name, amount in every[0].items() if _is_number(amount)}
    if not exact:
        known = {name: amount._replace(exact=not amount.additive) for name, amount in known.items()}
    return known | {"launches": _launches(kernels)}


def _of_kernel(kernel: SideKernel) -> dict[str, WorkAmount]:
    """Return what is known of a launch of one kernel."""
    amounts = _counted(kernel)
    amounts |= _over_profiles(kernel)
    loads, stores = amounts.get("local-load-sectors"), amounts.get("local-store-sectors")
    if loads is not None and stores is not None:
        amounts["spills"] = _sum([loads, stores])._replace(summed=1.0)
    return amounts


def _counted(kernel: SideKernel) -> dict[str, WorkAmount]:
    launches = sum(_counted_launches(profile) for profile in kernel.profiles if profile.counts)
    return {
        name: WorkAmount(
            value=count.value,
            low=count.low,
            high=count.high,
            unit=count.unit,
            metric=count.metric,
            launches=launches,
        )
        for name, count in kernel.counts.items()
    }


def _counted_launches(profile: KernelProfile) -> int:
    """Return how many launches the counts of a profile are of: of a survey's kernel only few were counted, one or two
    for sure."""
    if profile.duration_source != SURVEY:
        return profile.launches
    return 2 if any(count.low < count.high for count in profile.counts) else 1


def _over_profiles(kernel: SideKernel) -> dict[str, WorkAmount]:
    """Return what the representative has, with the range over all profiles that have it from the same counters."""
    amounts = dict(_derived(kernel.representative))
    if len(kernel.profiles) == 1:
        return amounts
    ranges: dict[str, list[float]] = {name: [] for name in amounts}
    for profile in kernel.profiles:
        for name, amount in _derived(profile):
            if name in amounts and amounts[name].metric == amount.metric:
                ranges[name].append(amount.value)
    return {
        name: amount._replace(low=min(ranges[name]), high=max(ranges[name]), launches=len(ranges[name]))
        for name, amount in amounts.items()
    }


def _derived(profile: KernelProfile) -> Iterator[tuple[str, WorkAmount]]:
    """Yield bytes, FLOP and resources of a launch."""
    for traffic in profile.traffic:
        if traffic.bytes is not None:
            exact = traffic.basis != "estimated"
            yield f"{traffic.level}-bytes", _single(traffic.bytes, "B", traffic.definition, exact=exact)
    for work in profile.work:
        if work.flop is not None:
            unit = "OP" if "int" in work.path else "FLOP"
            metric = f"{work.basis} {unit} of {work.path}"
            yield f"flop.{work.path}", _single(work.flop, unit, metric, exact=work.basis == "counted")

    for name, value, unit, metric in (
        ("registers", profile.registers_per_thread, "register", "launch__registers_per_thread"),
        ("shared-memory", profile.shared_memory_per_block, "B", "static and dynamic shared memory per block"),
        ("occupancy", profile.occupancy.theoretical, "fraction", "theoretical occupancy"),
    ):
        if value is not None:
            yield name, _single(value, unit, metric, additive=False)


def _single(value: float, unit: str, metric: str, *, exact: bool = True, additive: bool = True) -> WorkAmount:
    return WorkAmount(
        value=value, low=value, high=value, unit=unit, metric=metric, launches=1, exact=exact, additive=additive
    )


def _summed(every: Sequence[dict[str, WorkAmount]]) -> dict[str, WorkAmount]:
    """Add up what all kernels of a side have and what can be added."""
    if not every:
        return {}
    shared = [name for name in every[0] if all(name in own and own[name].additive for own in every)]
    return {name: _sum([own[name] for own in every]) for name in shared}


def _sum(amounts: Sequence[WorkAmount]) -> WorkAmount:
    metrics = dict.fromkeys(amount.metric for amount in amounts)
    return WorkAmount(
        value=sum(amount.value for amount in amounts),
        low=sum(amount.low for amount in amounts),
        high=sum(amount.high for amount in amounts),
        unit=amounts[0].unit,
        metric=" + ".join(metrics),
        launches=min(amount.launches for amount in amounts),
        exact=all(amount.exact for amount in amounts),
        summed=sum(amount.summed for amount in amounts),
    )


def _launches(kernels: Sequence[SideKernel]) -> WorkAmount:
    """Return how often the kernels are launched in a run, all together."""
    return _sum(
        [
            WorkAmount(
                value=kernel.launches,
                low=float(min(times.launches for times in kernel.times)),
                high=float(max(times.launches for times in kernel.times)),
                unit="launch",
                metric="launches of a run",
                launches=len(kernel.times),
            )
            for kernel in kernels
        ]
    )


def _is_number(amount: WorkAmount) -> bool:
    return all(math.isfinite(value) and 0 <= value <= _LARGEST for value in (amount.value, amount.low, amount.high))
