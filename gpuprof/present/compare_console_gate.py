"""The gate of a comparison in the terminal: whether it has passed, which limits failed, and what is not judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.comparison.contract import Gate, GateCheck, KernelChange
from gpuprof.present.compare_console_table import limited
from gpuprof.present.console_parts import Sheet
from gpuprof.present.session_text import count_text
from gpuprof.words.comparison_gate import CHECK_WORDS, gate_text

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {"regression": "red", "unclear": "yellow", "not-compared": "yellow", "accepted": "dim"}
_ORDER = ("regression", "unclear", "not-compared", "accepted")
_DOUBTS = ("unclear", "not-compared")
_NAME, _NAMED, _LIMIT = 40, 2, 40
"""Columns of a kernel's name; up to how many kernels are named together; columns of a limit."""


def gate_lines(
    gate: Gate, kernels: Sequence[KernelChange], sheet: Sheet, most: int | None, lines: int | None
) -> Iterator[Text]:
    """Yield an empty line, the result and, one by one, what it comes from; of the rest how many kernels they are of.

    `most` is how many checks are listed, each in up to `lines`; None: all, whole.
    """
    from rich.text import Text

    yield Text("")
    yield sheet.paragraph(gate_text(gate), "bold green" if gate.passed else "bold red")
    labels = {kernel.id: kernel.label for kernel in kernels}
    checks = sorted(gate.checks, key=lambda check: _ORDER.index(check.word) if check.word in _ORDER else len(_ORDER))
    told = [check for check in checks if most is None or check.word in _telling(gate)]
    for check in told[:most]:
        yield limited(sheet, _text(check, labels, sheet), lines, _STYLES[check.word], 2, hang=2)
    if most is None:
        return
    if len(told) > most:
        yield sheet.paragraph(f"… and {count_text(len(told) - most, 'more check')}: -v shows all", "dim", 2)
    for word in _DOUBTS:
        if word not in _telling(gate):
            doubted = [check for check in checks if check.word == word]
            if doubted:
                yield limited(
                    sheet,
                    f"{CHECK_WORDS[word]}: {_folded(doubted, labels, sheet)}; -v says why",
                    lines,
                    "yellow",
                    2,
                    hang=2,
                )


def _telling(gate: Gate) -> tuple[str, ...]:
    """Return the results of the checks to list: regressions, or else what failed in their place."""
    is_regression = any(check.word == "regression" for check in gate.checks)
    return ("regression", "accepted") if gate.passed or is_regression else ("unclear", "not-compared", "accepted")


def _text(check: GateCheck, labels: Mapping[int, str], sheet: Sheet) -> str:
    kernel = f"{_name(check, labels, sheet)}: " if check.kernel is not None else ""
    reason = f"; {check.accepted}" if check.accepted else ""
    return f"{CHECK_WORDS.get(check.word, check.word)}: {kernel}{check.sentence}{reason}"


def _name(check: GateCheck, labels: Mapping[int, str], sheet: Sheet) -> str:
    if check.kernel is None:  # a limit for some kernels, of which there are none, or one on the run
        return "no kernel" if check.pattern is not None else "the run"
    return sheet.fitted(labels.get(check.kernel, f"#{check.kernel}"), min(_NAME, sheet.width // 3))


def _folded(checks: Sequence[GateCheck], labels: Mapping[int, str], sheet: Sheet) -> str:
    """Write which limits are in doubt for what: "time:3% of 4 kernels, total-time:1% of the run"."""
    limits: dict[str, list[GateCheck]] = {}
    for check in checks:
        limits.setdefault(check.limit, []).append(check)
    return ", ".join(
        f"{sheet.fitted(limit, _LIMIT)} of {_whose(held, labels, sheet)}" for limit, held in limits.items()
    )


def _whose(checks: Sequence[GateCheck], labels: Mapping[int, str], sheet: Sheet) -> str:
    if len(checks) <= _NAMED:
        return " and ".join(_name(check, labels, sheet) for check in checks)
    return count_text(len(checks), "kernel")
