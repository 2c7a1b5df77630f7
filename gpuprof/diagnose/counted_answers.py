"""What a few hand-picked counters answer: that a launch does not have the fault that they count.

Who collects only the counters of bank conflicts asks whether there are any. If there are, a rule reports them.
"""

from __future__ import annotations

from collections.abc import Container

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import LANES, UNIFORM_BRANCHES
from gpuprof.diagnose.facts.traffic import SHARED_CONFLICTS, SHARED_CONFLICTS_BY_KIND
from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.model.quantities import NO_CLOCKS, first_counted
from gpuprof.model.session import Answer
from gpuprof.units import SECTOR_BYTES

_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_ACCESSES = "smsp__inst_executed_op_shared_{}.sum"
_BY_KIND = dict(zip(("ld", "st"), SHARED_CONFLICTS_BY_KIND, strict=True))
_KINDS = {"ld": "load", "st": "store"}
_LOCAL = (
    "l1tex__t_sectors_pipe_lsu_mem_local_op_{}.sum", "l1tex__t_requests_pipe_lsu_mem_local_op_{}.sum",
    "smsp__inst_executed_op_local_{}.sum", "smsp__sass_inst_executed_op_local_{}.sum",
)  # fmt: skip
_FEW = 0.05
"""A share of conflicts below the threshold of the rule, or of sectors' bytes that are not used."""
_SAME = 0.02
"""The difference that a ratio of two passes can have."""
_MANY_LANES = 0.75
"""A share of active threads above the threshold of the rule."""
_WIDE = (2, 4)
"""Wavefronts of a warp's access of 8 and 16 bytes per thread."""
_WORD_BYTES = 4
_SECTORS_OF_WORDS = 4
"""Sectors of a warp's coalesced access of 4 bytes per thread."""


def counted_answers(facts: KernelFacts, found: Container[str]) -> tuple[Answer, ...]:
    """Return the answers of a launch without speeds of light; `found` are the rules that have a finding in it."""
    if facts.kernel.throughput or facts.timed_only:
        return ()
    answers = (_conflicts(facts), _divergence(facts), *(_coalescing(facts, kind) for kind in _KINDS), _spills(facts))
    return tuple(answer for answer in answers if answer is not None and answer.rule not in found)


def _conflicts(facts: KernelFacts) -> Answer | None:
    """Return that there are no bank conflicts, or how few of the wavefronts of loads or of stores they are."""
    rule = "shared-bank-conflict"
    conflicts = {kind: value for kind, name in _BY_KIND.items() if (value := facts.number(name)) is not None}
    if not any(conflicts.values()):
        total = facts.number(SHARED_CONFLICTS)
        if total or (total is None and not conflicts):
            return None
        accesses = tuple(f"{_KINDS[kind]}s" for kind in conflicts) or ("accesses",)
        return Answer(rule=rule, cases=("no-conflicts",), labels=labels_of(accesses=accesses))
    shares = {kind: facts.ratio(_BY_KIND[kind], _WAVEFRONTS.format(kind)) or 0.0 for kind in conflicts}
    kind = max(shares, key=lambda name: shares[name])
    if not 0.0 < shares[kind] < _FEW:
        return None
    cases = ["few-conflicts"]
    wavefronts = facts.number(_WAVEFRONTS.format(kind))
    amounts = amounts_of(share=shares[kind]) + amounts_of("", wavefronts=wavefronts)
    each = facts.ratio(_WAVEFRONTS.format(kind), _ACCESSES.format(kind))
    if each:
        cases.append("wavefronts-of-access")
        least = each * (1.0 - shares[kind])
        amounts += amounts_of("", each=each, least=least)
        if round(least) in _WIDE and abs(least - round(least)) <= _SAME * least:
            cases.append("wide-access")
            amounts += amounts_of("byte", bytes=_WORD_BYTES * round(least))
    return Answer(rule=rule, cases=tuple(cases), amounts=amounts, labels=labels_of(kind=(_KINDS[kind],)))


def _divergence(facts: KernelFacts) -> Answer | None:
    """Return that all threads of a warp are active, or most."""
    threads, lanes, uniform = facts.number(*LANES), facts.lanes_of_block, facts.number(UNIFORM_BRANCHES)
    if threads is None or threads < _MANY_LANES * lanes:
        return None
    is_full = threads >= (1.0 - _SAME) * lanes
    cases = ["no-divergence" if is_full else "little-divergence"]
    if uniform:
        cases.append("uniform-branches")
    elif uniform == 0 and is_full:
        # A divergent branch leaves threads inactive.
        cases.append("no-branches")
    amounts = amounts_of("thread", threads=threads, lanes=lanes) + amounts_of(uniform=(uniform or 0.0) / 100)
    return Answer(rule="branch-divergence", cases=tuple(cases), amounts=amounts)


def _coalescing(facts: KernelFacts, kind: str) -> Answer | None:
    """Return the part of their sectors that global loads or stores use, else that requests have few sectors."""
    what = f"bytes-per-sector.{kind}"
    used = first_counted(facts.arch.counters.get(what, ()), what, facts.metrics, NO_CLOCKS)
    sectors = facts.request_sectors(kind)
    if used is not None and used.value > (1.0 - _FEW) * SECTOR_BYTES:
        case, amounts = "coalesced", amounts_of("byte", used=used.value)
    elif used is None and sectors and sectors <= (1.0 + _SAME) * _SECTORS_OF_WORDS:
        case, amounts = "few-sectors", amounts_of("sector", sectors=sectors)
    else:
        return None
    return Answer(
        rule="uncoalesced-global", cases=(case,), amounts=amounts, labels=labels_of(accesses=(f"{_KINDS[kind]}s",))
    )


def _spills(facts: KernelFacts) -> Answer | None:
    """Return that no thread accesses local memory."""
    for name in _LOCAL:
        if all(facts.number(name.format(kind)) == 0 for kind in _KINDS):
            return Answer(rule="local-memory-spill", cases=("no-local-memory",))
    return None
