"""What else is to be known of a comparison: kernels that were not profiled, missing ranges, unmatched kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import SIDES, ComparisonFact, SideName
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Known, Side
from gpuprof.model.session import Session, Source

_CHOOSING = (
    "--kernel-name", "--kernel-id", "--kernel-regex", "--launch-skip", "--launch-skip-before-match", "--launch-count",
    "--nvtx-include", "--nvtx-exclude", "--range-filter", "-k", "-s", "-c",
)  # fmt: skip
"""Options of ncu that let it profile some launches only."""
_FLAGS = frozenset(("-f", "--force-overwrite", "--nvtx", "--call-stack", "--quiet", "--verbose", "-v"))
"""Options of ncu that no value follows."""


def facts_of(base: Side, new: Side, known: Known, pairs: Sequence[Pair]) -> Iterator[ComparisonFact]:
    """Yield what else is to be known."""
    sides = tuple(zip((base, new), SIDES, strict=True))
    for side, name in sides:
        if not side.kernels:
            yield ComparisonFact(kind="no-kernels", side=name)
    gone, came = (sum(pair.match == word for pair in pairs) for word in ("gone", "new"))
    yield from _not_profiled(new, "new", gone)
    yield from _not_profiled(base, "base", came)
    if not known.ranges:
        has_ranges = any(kernel.representative.ranges for kernel in base.kernels)
        yield ComparisonFact(kind="no-ranges", side="new" if has_ranges else "base")
    if not known.configurations:
        has_grids = any(kernel.representative.grid is not None for kernel in base.kernels)
        yield ComparisonFact(kind="no-configurations", side="new" if has_grids else "base")
    for side, name in sides:
        yield from _in_some_runs(side, name)
    if gone and came:
        yield ComparisonFact(kind="unmatched", numbers=(gone, came))


def _not_profiled(side: Side, name: SideName, absent: int) -> Iterator[ComparisonFact]:
    """Yield that `absent` kernels may have run on a side all the same: every run of it was profiled in part."""
    reasons = [_partial(run.session, name, absent) for run in side.runs]
    if absent and side.kernels and reasons and reasons[0] is not None and all(reasons):
        yield reasons[0]


def _partial(session: Session, side: SideName, absent: int) -> ComparisonFact | None:
    """Return why a session lacks kernels of its run; None if nothing indicates that it does."""
    if session.excluded is not None:
        return ComparisonFact(kind="excluded", side=side, numbers=(absent,))
    if session.run is not None:
        kept = sum(kernel.launches for kernel in session.kernels)
        if kept >= session.run.launches:
            return None
        return ComparisonFact(kind="launches-profiled", side=side, numbers=(absent, kept, session.run.launches))
    option = next((option for source in session.sources if (option := _chosen_by(source))), None)
    return ComparisonFact(kind="option", side=side, numbers=(absent,), texts=(option,)) if option else None


def _chosen_by(source: Source) -> str:
    """Return the option of ncu's command line that chose launches; empty without one."""
    tokens = (source.command or "").split()
    if not tokens or not tokens[0].replace("\\", "/").split("/")[-1].startswith(("ncu", "nv-nsight-cu-cli")):
        return ""
    takes_value = False
    for token in tokens[1:]:
        if token.startswith("-"):
            option = token.partition("=")[0]
            if option in _CHOOSING:
                return option
            takes_value = "=" not in token and token not in _FLAGS
        elif not takes_value:
            return ""
        else:
            takes_value = False
    return ""


def _in_some_runs(side: Side, name: SideName) -> Iterator[ComparisonFact]:
    """Yield how many kernels are not in all runs of a side, and that several ranks or GPUs count as runs."""
    whole = sum(bool(run.session.kernels) for run in side.runs)
    some = sum(len(kernel.runs) < whole for kernel in side.kernels)
    if some:
        yield ComparisonFact(kind="some-runs", side=name, numbers=(some, whole))
    if any(len(kernel.times) > len(kernel.runs) for kernel in side.kernels):
        yield ComparisonFact(kind="lanes", side=name)
