"""What to fix first as text, alike in every view: recommendations in order, and the line above them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.calibration import OF_CONDITIONAL
from gpuprof.model.field_types import Confidence, Severity
from gpuprof.model.session import KernelProfile, Recommendation, RunVerdict, Session
from gpuprof.text import cut_middle
from gpuprof.units import format_percent
from gpuprof.words.finding_text import held_text, place_text, short_gain
from gpuprof.words.missing_metrics import needs_program
from gpuprof.words.profile_values import count_text, verdict_text
from gpuprof.words.source_names import in_source, source_name
from gpuprof.words.verdict import launches_of_function, verdict_sentence

_SHOWN = 5
_POINT = 0.01
"""Gains that differ by less than a point are shown as one."""
_LABEL_LENGTH = 72
_EVERYWHERE = "whole run"


class RecommendationText(Struct, frozen=True):
    """A recommendation as every view shows it.

    `bar` is the length of its bar; None without a known gain, for a guess, and for set-up kernels after others.
    `kernel` and `finding` are the ids of the first of each; `where` is a file and line, or an instruction. `doubt` says
    that it is a guess, or that its kernels only set up data. `name` and `spread` are its kernels: "gemm" and " (24
    launches, 52 %)", or "gemm" and " in base and fused". If `everywhere`, it concerns the whole run, not a kernel.
    """

    gain: str
    bar: float | None
    of: str
    held: str
    after: str
    headline: str
    action: str
    where: str
    rule: str
    severity: Severity
    confidence: Confidence
    doubt: str
    kernel: int
    finding: str
    name: str
    spread: str
    everywhere: bool

    @property
    def limits(self) -> str:
        """Return how certain the gain is: "a guess; with the same instructions; 12 % after the ones above"."""
        return "; ".join(part for part in (self.doubt, self.held, self.after) if part)


class Summary(Struct, frozen=True):
    """The first part of every view: the state of the run, what to fix first, and what is unknown.

    `headline` is the state of the kernel with most time; `spread` is how the time is spread over kernels. `legend`
    explains the gains, `left_out` counts the recommendations shown with their kernels only, and `nothing` says that
    there is nothing to fix. `command` collects what is `unknown`. Each is empty if there is none.
    """

    headline: str
    spread: str
    notes: tuple[str, ...]
    fixes: tuple[RecommendationText, ...]
    legend: str
    left_out: str
    nothing: str
    unknown: str
    command: str


def summary_of(session: Session) -> Summary:
    """Return the first part of every view of a session."""
    verdict, shown = session.verdict, _shown(session)
    return Summary(
        headline=headline_text(session),
        spread=verdict_text(session),
        notes=verdict.notes if verdict is not None else (),
        fixes=recommendation_texts(session),
        legend=_legend(shown, session),
        left_out=_left_out_text(len(_present(session)) - len(shown)),
        nothing=_nothing_text(session),
        unknown=_unknown_text(verdict) if verdict is not None else "",
        command=(verdict.command or "") if verdict is not None and verdict.unknown else "",
    )


def recommendation_texts(session: Session) -> tuple[RecommendationText, ...]:
    """Return the first recommendations of a session, in the order of the session."""
    kernels = {kernel.id: kernel for kernel in session.kernels}
    first = [_text_of(item, kernels, session, first=index == 0) for index, item in enumerate(_shown(session))]
    has_others = len({item.doubt for item in first}) > 1
    return tuple(
        replace(item, bar=None) if item.confidence == "guess" or (item.doubt and has_others) else item for item in first
    )


def _shown(session: Session) -> Sequence[Recommendation]:
    return _present(session)[:_SHOWN]


def _present(session: Session) -> Sequence[Recommendation]:
    """Return the recommendations worth showing, if their kernels are in the session.

    A caller that replaces a session's kernels may keep its recommendations.
    """
    numbers = {kernel.id for kernel in session.kernels}
    there = [item for item in session.recommendations if numbers.issuperset(item.kernels)]
    return [item for index, item in enumerate(there) if index == 0 or not _is_settled_guess(item)]


def _is_settled_guess(item: Recommendation) -> bool:
    """Return whether it is a guess with no gain left after those before it."""
    return item.confidence == "guess" and item.gain_after is not None and item.gain_after <= 0


def _left_out_text(rest: int) -> str:
    """Write how many recommendations are listed with their kernels only."""
    if rest <= 0:
        return ""
    return f"{count_text(rest, 'more fix', 'es')}, listed with {'its' if rest == 1 else 'their'} kernels"


def _legend(items: Sequence[Recommendation], session: Session) -> str:
    """Write the base of the gains, and the meaning of the signs that occur."""
    kinds = {item.gain_kind for item in items} - {None}
    signs = ("≤ at most",) * ("bound" in kinds)
    signs += ("~ usual range if conditions hold",) * ("conditional" in kinds)
    if not signs:
        return "what they save is not known"
    whole_run = all(item.gain_total is not None for item in items if item.gain_kind is not None)
    return f"share of {_run_text(session) if whole_run else 'the kernel'} saved: {', '.join(signs)}"


def _run_text(session: Session) -> str:
    """Return what gains of the run are shares of."""
    devices = session.timeline.devices if session.timeline is not None else ()
    return "a step" if devices and all(device.steps for device in devices) else "the run"


def headline_text(session: Session) -> str:
    """Write the first sentence of every view: the state of the kernel with most time; empty without kernels."""
    verdict = session.verdict
    if verdict is None:
        return ""
    kernel = session.numbered(verdict.kernel)
    if kernel is None:
        return verdict.sentence
    sources = {launch.source for launch in launches_of_function(session, kernel)}
    source = source_name(session, kernel) if len(sources) == 1 else ""
    name = cut_middle(kernel.function_name, _LABEL_LENGTH) + (f" ({source})" if source else "")
    try:
        return verdict_sentence(session, verdict, name)
    except KeyError:  # a case of another version of gpuprof
        return verdict.sentence


def _nothing_text(session: Session) -> str:
    """Write that there is nothing to fix first; empty if there is something, or if too little is known."""
    verdict = session.verdict
    if session.recommendations or not session.kernels or session.only_times or verdict is None or verdict.unknown:
        return ""
    return "No rule found anything worth fixing."


def _unknown_text(verdict: RunVerdict) -> str:
    """Write what is unknown, and how to collect it if the command line is unknown."""
    if not verdict.unknown or not verdict.command:
        return verdict.unknown or ""
    program = ", with your command line for PROGRAM" if needs_program(verdict.command) else ""
    left_out = ", with your folders and arguments for …" if "…" in verdict.command else ""
    return f"{verdict.unknown} To collect what is missing{program}{left_out}:"


def _text_of(
    item: Recommendation, kernels: dict[int, KernelProfile], session: Session, *, first: bool
) -> RecommendationText:
    kernel = kernels[item.kernels[0]]
    finding = next((finding for finding in kernel.findings if finding.id == item.findings[0]), None)
    gain = item.gain_total
    if gain is None and finding is not None:
        gain = finding.gain_kernel
    members, everywhere = [kernels[number] for number in item.kernels], finding is not None and finding.everywhere
    name, spread = (_EVERYWHERE, "") if everywhere else _kernels_text(members, session)
    of = "of the kernel" if gain is not None else "gain not known"
    if item.gain_total is not None:
        of = f"of {_run_text(session)}"
    return RecommendationText(
        gain=short_gain(gain, item.gain_kind),
        bar=gain if gain is None or item.gain_kind == "bound" else OF_CONDITIONAL.high * gain,
        of=of,
        held=_held_text(item, kernels),
        after="" if first else _after_text(item),
        headline=item.headline,
        action=item.action,
        where=place_text(item.place),
        rule=item.rule,
        severity=item.severity,
        confidence=item.confidence,
        doubt="only sets up data" if item.set_up else "a guess" if item.confidence == "guess" else "",
        kernel=kernel.id,
        finding=item.findings[0],
        name=name,
        spread=spread,
        everywhere=everywhere,
    )


def _held_text(item: Recommendation, kernels: dict[int, KernelProfile]) -> str:
    """Write the condition of its gains; of several kernels, also if only some have one."""
    if item.gain_kind == "bound":
        return ""
    names = frozenset(item.findings)
    members = [finding for number in item.kernels for finding in kernels[number].findings if finding.id in names]
    conditional = [finding for finding in members if finding.gain_kind == "conditional"]
    if not conditional:
        return held_text(item.held)
    if len({finding.assumes for finding in conditional}) > 1:
        return "if the condition stated at each kernel holds"
    in_part = "in part " if len(conditional) < len(members) else ""
    return f"{in_part}{held_text(conditional[0].held)}"


def _after_text(item: Recommendation) -> str:
    """Write the saving of a change after those before it, if that is less by a point or more."""
    if item.gain_total is None or item.gain_after is None or item.gain_total - item.gain_after < _POINT:
        return ""
    if item.gain_after <= 0:
        return "no further gain after the ones above"
    return f"{format_percent(item.gain_after)} after the ones above"


def _kernels_text(members: list[KernelProfile], session: Session) -> tuple[str, str]:
    """Return the kernel that a change helps, or how many, and in which files or launches it does."""
    kernel = members[0]
    if len(members) == 1:
        return f"#{kernel.id} {kernel.numbered_name}", in_source(session, kernel)
    functions = {member.function_name for member in members}
    if len(functions) > 1:
        return f"in {count_text(len(functions), 'kernel')}", ""
    files = tuple(dict.fromkeys(source_name(session, member) for member in members))
    if len(files) > 1:
        return kernel.function_name, f" in {', '.join(files[:-1])} and {files[-1]}"
    launches = count_text(sum(member.launches for member in members), "launch", "es")
    shares = [member.time_share for member in members if member.time_share is not None]
    share = f", {format_percent(min(1.0, sum(shares)))}" if shares else ""
    return kernel.function_name, f" ({launches}{share})"
