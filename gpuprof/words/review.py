"""The sentences of reviewed kernels: their theoretical occupancy, and the changes that raise it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprof.model.findings import Amount
from gpuprof.model.headline import listed
from gpuprof.units import counted, format_percent
from gpuprof.words.wording import AmountText, filled


def occupancy_sentence(
    fraction: float, blocks: int, warps: int, limiters: Sequence[str], *, may_be_less: bool, needs_dynamic: bool
) -> str:
    """Write the theoretical occupancy: "3 blocks (24 warps) per SM, 38 % of its warp slots, limited by registers".

    `may_be_less`: the launch may add dynamic shared memory of unknown size. `needs_dynamic`: it has to.
    """
    text = "no block of this size fits on an SM"
    if blocks:
        share = format_percent(fraction)
        text = f"{counted(blocks, 'block')} ({counted(warps, 'warp')}) per SM, {share} of its warp slots"
    if limiters:
        text += f", limited by {listed(limiters)}"
    if needs_dynamic:
        return f"{text}, at most: it uses dynamic shared memory of unknown size (--dynamic-shared BYTES)"
    if may_be_less:
        return f"{text}, at most: the launch may add dynamic shared memory (--dynamic-shared BYTES)"
    return text


def step_sentence(case: str, amounts: Iterable[Amount]) -> str:
    """Write a change and the occupancy after it, as the action of the rule on occupancy does."""
    return filled("low-occupancy", "action", (case,), {amount.name: AmountText(amount) for amount in amounts})
