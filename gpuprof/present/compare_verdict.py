"""The sentence on a compared kernel, taken apart: what became of its time, and the reasons, for views that tell one."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.words import interval_text
from gpuprof.present.compare_text import match_text
from gpuprof.present.session_text import count_text

_HEAD = re.compile(r"(faster|slower|same|unclear|unknown|times?)\b")
_MOST_HEAD = 160
_LAUNCHES = " a launch, "
_SAME_WORK = "the same work"


class SentenceParts(NamedTuple):
    """A sentence in two: "1.8x faster" and "registers 40 → 72"; any may be empty."""

    verdict: str
    reasons: str


def parts_of(change: KernelChange) -> SentenceParts:
    """Split the sentence on a kernel behind its verdict on time."""
    sentence = change.sentence
    if change.match in ("new", "gone"):
        return SentenceParts(sentence, "")
    head, colon, rest = sentence.partition(": ")
    if len(head) <= _MOST_HEAD and _HEAD.search(head):
        return SentenceParts(head, rest)
    return SentenceParts("", sentence) if colon else SentenceParts(sentence, "")


def beside_figures(change: KernelChange) -> str:
    """Say of a kernel what its row does not: how it was matched, how often it ran, what is unclear, and why.

    The doubt comes before the reasons, which may be long: a view cuts the end.
    """
    if change.match in ("new", "gone"):
        return ""
    verdict, reasons = parts_of(change)
    _, launches, calls = verdict.partition(_LAUNCHES)
    parts = [match_text(change), calls if launches else "", _doubt(change), reasons if reasons != _SAME_WORK else ""]
    return "; ".join(part for part in parts if part)


def _doubt(change: KernelChange) -> str:
    """Say between what an unclear change lies, and what would settle it."""
    time = change.time
    if time.verdict != "unclear":
        return ""
    interval = interval_text(time.interval)
    needed = f"{count_text(time.runs_needed, 'run')} a side would tell" if time.runs_needed else ""
    return ", ".join(part for part in (f"time {interval} at 99 %" if interval else "", needed) if part)
