"""Rules on memory: sectors that are not needed, bank conflicts, narrow accesses, atomics."""

from __future__ import annotations

from gpuprof.diagnose.thresholds import Threshold
from gpuprof.review.rules.atomics import atomic_contention
from gpuprof.review.rules.coalescing import MORE, uncoalesced
from gpuprof.review.rules.conflicts import bank_conflicts
from gpuprof.review.rules.rule import CodeRule
from gpuprof.review.rules.widths import NARROW, narrow_accesses

RULES: tuple[CodeRule, ...] = (
    CodeRule(
        id="uncoalesced-global",
        title="Uncoalesced global accesses",
        looks_at="Sectors that a request of a warp touches, against those that it would with its lanes side by side, "
        "and what tells the fix: how far lanes are apart, which other words a thread accesses, whether addresses "
        "are looked up. Where the stride is an argument, what a request costs if that is large: a guess.",
        silent="What lanes touch is not known, or the addresses are looked up; lanes side by side of which some take "
        "no part, or that share words and touch no more sectors than 32 words; atomics; accesses that start inside a "
        "sector because they are a neighbour of another, as in a stencil.",
        thresholds=(MORE,),
        check=uncoalesced,
    ),
    CodeRule(
        id="shared-bank-conflict",
        thresholds=(Threshold("more-wavefronts", 1.0, "wavefront/request"),),
        check=bank_conflicts,
    ),
    CodeRule(
        id="narrow-access",
        title="Narrow global accesses",
        looks_at="Words side by side that a thread loads or stores one at a time, with nothing but the instructions "
        "between them; and loads and stores of 1 and 2 bytes by lanes that are side by side.",
        silent="The words are those of neighbouring lanes, as in a stencil, or the same for all lanes; an access of "
        "them is reported as uncoalesced, whose fix is the same; most accesses are wider.",
        thresholds=(NARROW,),
        check=narrow_accesses,
    ),
    CodeRule(
        id="atomic-contention",
        title="Atomic contention",
        looks_at="Atomics of all lanes of a warp on one address, and atomics on global memory in loops.",
        silent="One lane does it for the warp: by a comparison with its index, or as ptxas aggregates it (a vote, and "
        "the lane that leads). Compare-and-swap. In loops: shared memory, and addresses that each thread has for "
        "itself. How many lanes meet in an address that was looked up is not known.",
        check=atomic_contention,
    ),
)
