"""The bound of a gain: a fix removes a part of the needs of some units, the others remain.

A kernel cannot end before the unit with most remaining work has done it. So the bound of every gain
is 1 − the largest need that remains: of units that the fix does not relieve, and the rest of those
that it relieves in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ADDRESS_PIPES, ISSUE, LAUNCH, MEMORY, SM
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.thresholds import WELL_USED
from gpuprof.model.session import Remaining

_SHOWN = 8
"""Number of remaining needs that a finding keeps."""
_ROUNDING = 1e-9
"""Savings that differ by less are the same, worked out in two ways."""


class Saving(Struct, frozen=True):
    """The part of a kernel's time that a fix saves, and its conditions.

    `fraction` is of the kernel's time. It is bounded by `remains`, the needs of the units after the
    fix. It is smaller if it is valid only while everything that it `assumes` stays as it is.
    """

    fraction: float
    remains: tuple[Remaining, ...] = ()
    assumes: tuple[str, ...] = ()

    def if_held(self, fraction: float, *assumes: str) -> Saving:
        """Return the smaller saving that is valid only on assumptions: "same-instructions"."""
        return self.or_less(self.no_more_than(fraction), *assumes)

    def or_less(self, other: Saving, *assumes: str) -> Saving:
        """Return the other saving, with its own remaining needs, if it is smaller and valid on assumptions."""
        if other.fraction < self.fraction - _ROUNDING:
            return replace(other, assumes=assumes)
        return self

    def only_if(self, *assumes: str) -> Saving:
        """Return the saving with these assumptions if it has none yet."""
        return replace(self, assumes=self.assumes or assumes)

    def no_more_than(self, fraction: float) -> Saving:
        """Return the saving with one more upper bound, such as the time that the fix affects."""
        return replace(self, fraction=min(self.fraction, max(0.0, fraction)))


def speedup_bound(facts: KernelFacts, relieved: Mapping[str, float] = {}) -> Saving:
    """Bound the saving of a fix that leaves these parts of the units' needs (0: none), and all of the others."""
    return saving(facts.least_times, relieved)


def bound_beside(facts: KernelFacts, units: Iterable[str], stays: float) -> Saving:
    """Bound the saving of a fix that leaves this part of the needs of all but these units."""
    return speedup_bound(facts, {unit: stays for unit in facts.needs if unit not in units})


def bound_of_wait(facts: KernelFacts, share: float) -> Saving:
    """Return the saving if warps no longer wait for something: the share of the wait, limited
    by idle issue slots.

    Both are shares of the time in which SMs have work. It is no bound, because a fix of a wait
    often also removes instructions or bytes.
    """
    most = facts.working_share * min(share, 1.0 - (facts.issue_active or 0.0))
    return speedup_bound(facts).no_more_than(most).only_if("same-instructions-and-stalls")


def without_idle(facts: KernelFacts, idle: float, assumption: str = "same-time-per-block") -> Saving:
    """Return the saving of the SMs' idle time if all have equal work."""
    return speedup_bound(facts).if_held(idle, assumption).only_if("same-instructions")


def explained(facts: KernelFacts, busy: float | None, reasons: tuple[str, ...] = MEMORY_STALLS) -> float:
    """Return the share of the time that a unit can explain: while it is busy, or warps wait for it (by
    default for memory), or at barriers for a warp that does.

    No unit reaches its peak in practice, so a unit that counts as well used explains all of the
    time. Warps can also wait for an idle unit: if its utilization or the stalls were not collected,
    it can explain everything. It can also explain all of the time in which some SMs have ended and
    others work: few warps are left then, and their waits are a small share.
    """
    return at_work(facts, 1.0 if busy is None else busy, facts.waits_behind(*reasons))


def at_work(facts: KernelFacts, busy: float, waits: float, late: float = 1.0) -> float:
    """Return the share of the time that a busy unit, waits and a part of the late share explain."""
    return min(1.0, max(busy, waits) / WELL_USED + late * facts.late_share)


def capped(facts: KernelFacts, bound: Saving, share: float, weight: float) -> Saving:
    """Bound a saving by its share of a unit's work, and by the share of the time that the unit
    explains.

    Both are shares of the time without the launch. The bound by waits assumes that the other waits
    stay: some of them can also go, if they result from these.
    """
    most = bound.no_more_than(share * (1.0 - facts.need(LAUNCH)))
    if weight >= 1.0:
        return most
    return most.if_held(share * weight * facts.working_share, OTHER_WAITS)


def saving(needs: Mapping[str, float], relieved: Mapping[str, float] = {}) -> Saving:
    """Bound the saving of a fix that leaves these parts of the units' needs (0: none).

    What remains is listed, largest first, without units that need nothing. The SM's speed of light is
    that of its busiest part: it stays only if the fix relieves no part of the SM.
    """
    kept = {unit: need * min(1.0, max(0.0, relieved.get(unit, 1.0))) for unit, need in needs.items()}
    if any(unit not in (*MEMORY, LAUNCH) and factor < 1.0 for unit, factor in relieved.items()):
        kept.pop(SM, None)
    ranked = sorted(kept.items(), key=lambda item: -item[1])
    remains = tuple(Remaining(unit, min(1.0, need)) for unit, need in ranked[:_SHOWN] if need > 0)
    return Saving(1.0 - (remains[0].fraction if remains else 0.0), remains)


def together(findings: Iterable[tuple[Remaining, ...]]) -> float:
    """Return the largest need that remains after several fixes: for each unit, the least that any
    of them leaves.

    A unit that a fix does not list needs hardly anything after it.
    """
    least: dict[str, float] | None = None
    for remains in findings:
        needs = {item.unit: item.fraction for item in remains}
        if least is None:
            least = needs
        least = {unit: min(need, needs[unit]) for unit, need in least.items() if unit in needs}
    return max((least or {}).values(), default=0.0)


NO_ADDRESSES = dict.fromkeys((ISSUE, *ADDRESS_PIPES), 0.0)
"""The parts that stay of the units that compute the addresses of accesses, if a fix removes this work."""
OTHER_WAITS = "other-stalls-unchanged"
PER_SM, PER_WARP = "same-speed-per-sm", "same-speed-per-warp"
