"""Warp states on the page: one stacked bar whose colours mean the same everywhere, with every name written."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpuprof.model.headline import stalls_of
from gpuprof.model.session import KernelProfile
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.present.page.parts import percent_number
from gpuprof.units import format_percent
from gpuprof.views.theme import contrast_ratio

_LEAST_STALL = 0.02
_LEAST_NAMED = 0.12
"""Below this share a state's name does not fit into its part of the bar; the list below the bar has it."""

STALL_COLOURS = {
    "long_scoreboard": "#d55e00", "lg_throttle": "#e58b47", "tex_throttle": "#f0b88c", "drain": "#a84a00",
    "short_scoreboard": "#009e73", "mio_throttle": "#4fbd9d", "imc_miss": "#9bd8c6",
    "wait": "#0072b2", "math_pipe_throttle": "#4a9bca", "dispatch_stall": "#8fc3e0",
    "barrier": "#cc79a7", "membar": "#a8508a", "sleeping": "#e0afca", "gmma": "#8c3f74",
    "no_instruction": "#b8a800", "branch_resolving": "#d9cb3f", "misc": "#777777",
    "selected": "#9aa0a8", "not_selected": "#c4c8ce",
}  # fmt: skip
"""Memory orange, shared memory green, arithmetic blue, synchronisation purple, fetching yellow, no stall grey."""


class StallPart(Struct, frozen=True):
    """A piece of the stall bar. `width` is percent of its length; `ink` is legible on `colour`."""

    name: str
    text: str
    colour: str
    ink: str
    width: str
    named: bool
    is_stall: bool


def stall_parts(kernel: KernelProfile) -> Iterator[StallPart]:
    """Yield the states of a kernel's warps, largest first; what is under 2 % is put together."""
    rest = 0.0
    for stall in stalls_of(kernel):
        if stall.share < _LEAST_STALL:
            rest += stall.share
            continue
        is_stall = stall.reason not in NOT_STALLED
        yield _part(stall_name(stall.reason), stall.share, stall_colour(stall.reason), is_stall=is_stall)
    if rest > 0:
        yield _part("All others", rest, STALL_COLOURS["misc"], is_stall=True)


def stall_colour(reason: str) -> str:
    """Return the colour of a stall reason; one that no spec knows has the colour of "misc"."""
    return STALL_COLOURS.get(reason, STALL_COLOURS["misc"])


def _part(name: str, share: float, colour: str, *, is_stall: bool) -> StallPart:
    ink = max(("#000000", "#ffffff"), key=lambda ink: contrast_ratio(ink, colour))
    width = percent_number(share)
    named, text = share >= _LEAST_NAMED, format_percent(share)
    return StallPart(name, text, colour, ink=ink, width=width, named=named, is_stall=is_stall)
