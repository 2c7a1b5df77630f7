"""Warp states of a kernel on both sides: paired bars, the base's above the new one's."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpuprof.comparison.pair import Pair
from gpuprof.model.headline import stalls_of
from gpuprof.model.session import KernelProfile, Stall
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.present.compare_page.parts import representative_of
from gpuprof.present.page.parts import percent_number
from gpuprof.units import format_percent, significant
from gpuprof.views.warp_states import family_text, stall_colour

_MOST_STATES, _LEAST_SHARE, _LEAST_CYCLES = 8, 0.005, 0.01


class PairedStall(Struct, frozen=True):
    """A state on both sides: bars in percent of the longest, shares and warp cycles per issue as texts."""

    name: str
    colour: str
    is_stall: bool
    base: str
    base_bar: str
    base_cycles: str
    new: str
    new_bar: str
    new_cycles: str


class PairedStalls(Struct, frozen=True):
    """The states with most share on any side. `note` says what the shares are of, or why they cannot be paired."""

    states: tuple[PairedStall, ...]
    has_cycles: bool
    note: str


def paired_stalls(pair: Pair) -> PairedStalls | None:
    """Return the states of both representatives; None if any side has none, or the kernel is on one side alone."""
    base, new = representative_of(pair.base), representative_of(pair.new)
    if base is None or new is None or not stalls_of(base) or not stalls_of(new):
        return None
    families = family_text(base), family_text(new)
    if families[0] != families[1]:
        return PairedStalls((), has_cycles=False, note=f"Not paired: base is {families[0]}, new is {families[1]}.")
    states = tuple(_states(base, new))
    has_cycles = any(state.base_cycles or state.new_cycles for state in states)
    note = f"Share of warp states, {families[0]}."
    if has_cycles:
        note += " Beside it: warp cycles in the state per issued instruction."
    return PairedStalls(states, has_cycles=has_cycles, note=note)


def _states(base: KernelProfile, new: KernelProfile) -> Iterator[PairedStall]:
    before, after = ({stall.reason: stall for stall in stalls_of(kernel)} for kernel in (base, new))
    shares = {
        reason: max(_share(before.get(reason)), _share(after.get(reason)))
        for reason in dict.fromkeys((*before, *after))
    }
    longest = max(shares.values(), default=0.0) or 1.0
    most = sorted((reason for reason in shares if shares[reason] >= _LEAST_SHARE), key=lambda reason: -shares[reason])
    for reason in most[:_MOST_STATES]:
        old, fresh = before.get(reason), after.get(reason)
        yield PairedStall(
            name=stall_name(reason),
            colour=stall_colour(reason),
            is_stall=reason not in NOT_STALLED,
            base=format_percent(_share(old)),
            base_bar=percent_number(_share(old) / longest),
            base_cycles=_cycles(old),
            new=format_percent(_share(fresh)),
            new_bar=percent_number(_share(fresh) / longest),
            new_cycles=_cycles(fresh),
        )


def _share(stall: Stall | None) -> float:
    return stall.share if stall is not None else 0.0


def _cycles(stall: Stall | None) -> str:
    if stall is None or stall.cycles_per_issue is None:
        return ""
    return significant(stall.cycles_per_issue) if stall.cycles_per_issue >= _LEAST_CYCLES else f"<{_LEAST_CYCLES}"
