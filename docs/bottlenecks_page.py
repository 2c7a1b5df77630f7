"""The reference of the planted bottlenecks: what each case computes, what is wrong with it, and what fixes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from benchmarks.diagnosis.case import FAMILIES, NONE, TARGETS, Case
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.worth import half

INTRO = f"""Small kernels, each with one planted cause (`slow`) and its fixed twin (`fixed`). They measure how often
the diagnosis is right; [the diagnosis](../explanation/diagnosis.md) says how they are scored. They are in
`microkernels/bottlenecks/`; this page is made from them.

- Both kernels of a case run on the host's processor in the tests, and leave the same results.
- A gate looks at the compiled code of {", ".join(TARGETS)}: the cause is in that of `slow`, gone from
  that of `fixed`, and nothing else makes `slow` the worse: block size, resident warps, width of loads, instructions.
  What else a fix has to change is listed in the case, with the reason.
- The half is that of a fixed hash of the name: thresholds may be tuned on the one, and not on the other.
"""


def bottlenecks_page() -> str:
    """Return the page."""
    cases = sorted(load_cases(), key=lambda case: (FAMILIES.index(case.family), case.planted_rule, case.name))
    return "\n".join(["# Planted bottlenecks\n", INTRO, *_counts(cases), *_families(cases)]) + "\n"


def _counts(cases: Sequence[Case]) -> Iterator[str]:
    planted = Counter(case.planted_rule for case in cases if case.planted_rule != NONE)
    halves = Counter(half(case.name) for case in cases)
    yield (
        f"{len(cases)} cases for {len(planted)} rules; {len(cases) - planted.total()} of them have nothing wrong. "
        f"{' and '.join(f'{count} {name}' for name, count in sorted(halves.items()))}.\n"
    )


def _families(cases: Sequence[Case]) -> Iterator[str]:
    for family, members in groupby(cases, lambda case: case.family):
        yield f"## {family}\n"
        yield "| case | computes | planted | fix | half |"
        yield "|---|---|---|---|---|"
        for case in members:
            yield f"| {' | '.join(_cells(case))} |"
        yield ""


def _cells(case: Case) -> tuple[str, ...]:
    place = f"../../microkernels/bottlenecks/{case.source.name}"
    rule = f"none: {case.roof}" if case.planted_rule == NONE else _planted(case)
    return f"[{case.name}]({place})", case.title, rule, case.fix or "–", half(case.name)


def _planted(case: Case) -> str:
    limiter = f" ({case.limiter})" if case.limiter else ""
    return f"[{case.planted_rule}](rules.md#{case.planted_rule}){limiter}"
