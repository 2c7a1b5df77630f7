"""The states of a kernel's warps as a stacked bar, with colours that mean the same everywhere."""

from __future__ import annotations

from gpuprof.model.headline import stalls_of
from gpuprof.model.session import KernelProfile
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.units import format_percent
from gpuprof.views.document import Bar, Bars
from gpuprof.words.profile_values import issue_text
from gpuprof.words.sentences import capital, full_stop

_LEAST_SHARE = 0.02
_FAMILIES = {
    "counter": "from hardware counters",
    "sampled": "from PC samples",
    "sampled-not-issued": "from PC samples of cycles without an issue",
}
_OTHER_COLOUR = "#777777"
# Memory is orange, shared memory green, arithmetic blue, synchronisation purple, fetching yellow, no stall grey.
_COLOURS = {
    "long_scoreboard": "#d55e00", "lg_throttle": "#e58b47", "tex_throttle": "#f0b88c", "drain": "#a84a00",
    "short_scoreboard": "#009e73", "mio_throttle": "#4fbd9d", "imc_miss": "#9bd8c6",
    "wait": "#0072b2", "math_pipe_throttle": "#4a9bca", "dispatch_stall": "#8fc3e0",
    "barrier": "#cc79a7", "membar": "#a8508a", "sleeping": "#e0afca", "gmma": "#8c3f74",
    "no_instruction": "#b8a800", "branch_resolving": "#d9cb3f",
    "selected": "#9aa0a8", "not_selected": "#c4c8ce",
}  # fmt: skip


def warp_states(kernel: KernelProfile) -> Bars:
    """Return the states of a kernel's warps, largest first, those under 2 % together."""
    items = []
    rest = 0.0
    for stall in stalls_of(kernel):
        if stall.share < _LEAST_SHARE:
            rest += stall.share
            continue
        text = format_percent(stall.share)
        if stall.reason in NOT_STALLED:
            text += " (no stall)"
        colour = _COLOURS.get(stall.reason, _OTHER_COLOUR)
        items.append(Bar(stall_name(stall.reason), stall.share, text, colour=colour))
    if rest > 0:
        items.append(Bar("All others", rest, format_percent(rest), colour=_OTHER_COLOUR))
    note = full_stop(capital(issue_text(kernel)))
    return Bars(f"Warp states, {family_text(kernel)}", tuple(items), note=note, stacked=True)


def family_text(kernel: KernelProfile) -> str:
    """Return the source of a kernel's stall shares; empty if it has none."""
    stalls = stalls_of(kernel)
    return _FAMILIES.get(stalls[0].family, stalls[0].family) if stalls else ""
