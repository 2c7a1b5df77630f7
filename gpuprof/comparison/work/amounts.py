"""The work of one side of a pair: counts, bytes, FLOP and resources, each with its range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.comparison.sides import SideKernel
from gpuprof.comparison.values import all_known
from gpuprof.model.session import KernelProfile
from gpuprof.model.surveyed import SURVEY

_LARGEST = 1e30
"""The largest `Number`: a sum may come to more."""


class WorkAmount(NamedTuple):
    """A value of a launch, or of a run; `low` and `high` are its range over `launches` launches.

    `exact` is false for a value computed from a rate or from a percentage of a peak. `summed` are
    the launches of a run whose sum it is.
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
        """Return the amount of so many launches."""
        return self._replace(
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            summed=self.summed * factor,
        )


def amounts_of(kernels: Sequence[SideKernel], *, per_run: bool, exact: bool = True) -> dict[str, WorkAmount]:
    """Return the work of a launch of a kernel, or of all launches in a run of all these kernels.

    Of several kernels there is no resource, and no count that one of them lacks. Values that were
    printed with few digits are not `exact`.
    """
    by_kernel = [_of_kernel(kernel, per_run=per_run) for kernel in kernels]
    amounts = by_kernel[0] if len(by_kernel) == 1 else _summed(by_kernel)
    amounts = {name: amount for name, amount in amounts.items() if _is_number(amount)}
    if not exact:
        amounts = {name: amount._replace(exact=not amount.additive) for name, amount in amounts.items()}
    return amounts | {"launches": _launches(kernels)}


def _of_kernel(kernel: SideKernel, *, per_run: bool) -> dict[str, WorkAmount]:
    """Return the work of a launch of one kernel, or of all its launches in a run."""
    amounts = _counted(kernel) | _over_profiles(kernel)
    loads = amounts.get("local-load-sectors")
    stores = amounts.get("local-store-sectors")
    if loads is not None and stores is not None:
        amounts["spills"] = _sum([loads, stores])._replace(summed=1.0)
    if per_run:
        for name, amount in amounts.items():
            if amount.additive:
                amounts[name] = amount.times(kernel.launches)
    return amounts


def _counted(kernel: SideKernel) -> dict[str, WorkAmount]:
    launches = sum(_counted_launches(profile) for profile in kernel.profiles if profile.counts)
    return {
        name: WorkAmount(count.value, count.low, count.high, count.unit, count.metric, launches)
        for name, count in kernel.counts.items()
    }


def _counted_launches(profile: KernelProfile) -> int:
    """Return how many launches the counts of a profile are of.

    Of a survey's kernel only few were counted: one or two for sure.
    """
    if profile.duration_source != SURVEY:
        return profile.launches
    return 2 if any(count.low < count.high for count in profile.counts) else 1


def _over_profiles(kernel: SideKernel) -> dict[str, WorkAmount]:
    """Return the amounts of the representative, with the range over all profiles that have them from equal counters."""
    amounts = dict(_derived(kernel.representative))
    if len(kernel.profiles) == 1:
        return amounts
    ranges: dict[str, list[float]] = {name: [] for name in amounts}
    for profile in kernel.profiles:
        for name, amount in _derived(profile):
            if name in amounts and amounts[name].metric == amount.metric:
                ranges[name].append(amount.value)
    for name, values in ranges.items():
        amounts[name] = amounts[name]._replace(low=min(values), high=max(values), launches=len(values))
    return amounts


def _derived(profile: KernelProfile) -> Iterator[tuple[str, WorkAmount]]:
    """Yield bytes, FLOP and resources of a launch."""
    for traffic in profile.traffic:
        if traffic.bytes is not None:
            exact = traffic.basis != "estimated"
            yield (
                f"{traffic.level}-bytes",
                _single(traffic.bytes, "B", traffic.definition, exact=exact),
            )
    for work in profile.work:
        if work.flop is not None:
            unit = "OP" if "int" in work.path else "FLOP"
            metric = f"{work.basis} {unit} of {work.path}"
            yield (
                f"flop.{work.path}",
                _single(work.flop, unit, metric, exact=work.basis == "counted"),
            )
    for name, value, unit, metric in (
        ("registers", profile.registers_per_thread, "register", "launch__registers_per_thread"),
        (
            "shared-memory",
            profile.shared_memory_per_block,
            "B",
            "static and dynamic shared memory per block",
        ),
        ("occupancy", profile.occupancy.theoretical, "fraction", "theoretical occupancy"),
    ):
        if value is not None:
            yield name, _single(value, unit, metric, additive=False)


def _single(value: float, unit: str, metric: str, *, exact: bool = True, additive: bool = True) -> WorkAmount:
    return WorkAmount(value, value, value, unit, metric, launches=1, exact=exact, additive=additive)


def _summed(by_kernel: Sequence[dict[str, WorkAmount]]) -> dict[str, WorkAmount]:
    """Add up the additive amounts that all kernels of a side have."""
    sums = {}
    for name in by_kernel[0] if by_kernel else ():
        amounts = all_known(own.get(name) for own in by_kernel)
        if amounts is not None and all(amount.additive for amount in amounts):
            sums[name] = _sum(amounts)
    return sums


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
    amounts = []
    for kernel in kernels:
        counts = [times.launches / times.steps for times in kernel.times]
        amounts.append(
            WorkAmount(
                kernel.launches,
                min(counts),
                max(counts),
                "launch",
                f"launches of a {kernel.per}",
                len(counts),
            )
        )
    return _sum(amounts)


def _is_number(amount: WorkAmount) -> bool:
    return all(math.isfinite(value) and 0 <= value <= _LARGEST for value in (amount.value, amount.low, amount.high))
