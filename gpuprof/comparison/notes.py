"""What else is to be known of a comparison: what was not profiled, what tells no kernels apart, what is left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Known, Side
from gpuprof.model.session import Session, Source
from gpuprof.units import counted, spaced

_CHOOSING = (
    "--kernel-name", "--kernel-id", "--kernel-regex", "--launch-skip", "--launch-skip-before-match", "--launch-count",
    "--nvtx-include", "--nvtx-exclude", "--range-filter", "-k", "-s", "-c",
)  # fmt: skip
"""Options of ncu that let it profile some launches only."""
_FLAGS = frozenset(("-f", "--force-overwrite", "--nvtx", "--call-stack", "--quiet", "--verbose", "-v"))
"""Options of ncu that no value follows."""


def notes_of(base: Side, new: Side, known: Known, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return what else is to be known, in sentences."""
    return tuple(_notes(base, new, known, pairs))


def _notes(base: Side, new: Side, known: Known, pairs: Sequence[Pair]) -> Iterator[str]:
    for side, called in ((base, "base"), (new, "new")):
        if not side.kernels:
            yield f"The {called} side has no kernels."
    yield from _not_profiled(new, "new", "gone", sum(pair.match == "gone" for pair in pairs))
    yield from _not_profiled(base, "base", "new", sum(pair.match == "new" for pair in pairs))
    if not known.ranges:
        lacks = "new" if any(kernel.speaker.ranges for kernel in base.kernels) else "base"
        yield f"The {lacks} side has no ranges: kernels are matched without them."
    if not known.configurations:
        lacks = "new" if any(kernel.speaker.grid is not None for kernel in base.kernels) else "base"
        yield f"The {lacks} side has no launch configurations: kernels are matched by name alone."
    for side, called in ((base, "base"), (new, "new")):
        yield from _in_some_runs(side, called)
    yield from _left_alone(pairs)


def _not_profiled(side: Side, called: str, word: str, number: int) -> Iterator[str]:
    """Say that an absence is not known: every run of the side was profiled in part."""
    reasons = [_partial(run.session) for run in side.runs]
    if not number or not side.kernels or not all(reasons):
        return
    what = "1 kernel that is" if number == 1 else f"{spaced(number)} kernels that are"
    yield f"The {called} side was profiled in part ({reasons[0]}): {what} {word} may have run on both sides."


def _partial(session: Session) -> str:
    """Return why a session lacks kernels of its run; empty where nothing says that it does."""
    if session.excluded is not None:
        return "kernels were excluded"
    if session.run is not None:
        run, kept = session.run, sum(kernel.launches for kernel in session.kernels)
        return f"{spaced(kept)} of {spaced(run.launches)} launches" if kept < run.launches else ""
    return next((option for source in session.sources if (option := _chosen_by(source))), "")


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


def _in_some_runs(side: Side, called: str) -> Iterator[str]:
    """Say that kernels are not in all runs of a side, and that several ranks or GPUs count as runs."""
    whole = sum(bool(run.session.kernels) for run in side.runs)
    some = sum(len(kernel.runs) < whole for kernel in side.kernels)
    if some:
        what = "1 kernel is" if some == 1 else f"{spaced(some)} kernels are"
        yield f"{what} in some of the {whole} runs of the {called} side only."
    if any(len(kernel.times) > len(kernel.runs) for kernel in side.kernels):
        yield f"The {called} side has several ranks or GPUs: each counts as a run in verdicts on time."


def _left_alone(pairs: Sequence[Pair]) -> Iterator[str]:
    """Say how to pair what no rule pairs."""
    gone, new = (sum(pair.match == word for pair in pairs) for word in ("gone", "new"))
    if gone and new:
        yield (
            f"{counted(gone, 'kernel')} that {'is' if gone == 1 else 'are'} gone and {spaced(new)} that "
            f"{'is' if new == 1 else 'are'} new: none is clearly like another. Where one became the other, "
            "--match OLD=NEW compares them."
        )
