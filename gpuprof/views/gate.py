"""The gate of a comparison or a review as blocks: its result and the limits that are not kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.comparison.contract import Gate, GateCheck
from gpuprof.text import cut_middle
from gpuprof.units import counted
from gpuprof.views.changed_kernel import sentence
from gpuprof.views.document import Block, Cell, Facts, Fold, Inline, Note, Tone
from gpuprof.words.comparison_gate import CHECK_WORDS, gate_text
from gpuprof.words.sentences import joined_by

_BRIEF_CHECKS = 3
_PAGE_CHECKS = 10
_MOST_CHECKS = 60
_NAME_LENGTH = 40
_TONES: dict[str, Tone] = {
    "regression": "bad", "unclear": "warning", "not-compared": "warning", "accepted": "muted",
}  # fmt: skip


def gate_blocks(
    gate: Gate | None, kernels: Mapping[int, str], targets: Mapping[int, str] | None = None, *, are_folded: bool = False
) -> Iterator[Block]:
    """Yield the result and all checks that are not simply ok, those that fail first; without `targets` a few.

    `kernels` are labels by id. If checks `are_folded`, those that do not fail are folded away if they are many.
    """
    if gate is None:
        return
    yield Note(gate_text(gate), "good" if gate.passed else "bad")
    labels = {kernel: cut_middle(label, _NAME_LENGTH) for kernel, label in kernels.items()}
    checks = sorted(gate.checks, key=lambda check: not gate.fails(check))
    rows = [_check_row(check, labels, targets) for check in checks]
    most = _BRIEF_CHECKS if targets is None else len(rows)
    if are_folded:
        most = max(_PAGE_CHECKS, sum(map(gate.fails, checks)))
    shown, rest = tuple(rows[:most]), tuple(rows[most:])
    more = counted(len(rest), "more check")
    if rest and not are_folded:
        shown += (("", Cell(f"… and {more}: -v shows all", "muted")),)
    if shown:
        yield Facts(shown)
    if rest:
        yield Fold(more, (Facts(rest if are_folded else rest[:_MOST_CHECKS]),))


def _check_row(check: GateCheck, labels: Mapping[int, str], targets: Mapping[int, str] | None) -> tuple[str, Inline]:
    whose = "the run, " if check.pattern is None else ""
    href = ""
    if check.kernel is not None:
        whose = f"{labels.get(check.kernel, check.kernel)}, "
        href = targets.get(check.kernel, f"row-{check.kernel}") if targets is not None else ""
    text = f"{whose}{cut_middle(check.limit, _NAME_LENGTH)}: {sentence(check.sentence)}"
    text = joined_by("; ", text, sentence(check.accepted))
    return CHECK_WORDS.get(check.word, check.word), Cell(text, _TONES[check.word], href=href)
