"""The result of `gpuprof doctor` as a document."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.collect.doctor import NOTE, OK, PROBLEM, Check
from gpuprof.views import document as doc

_TONES: dict[str, doc.Tone] = {OK: "good", NOTE: "low", PROBLEM: "high"}


def doctor_view(checks: Sequence[Check]) -> doc.Document:
    """Return the result of each check, with the fix if something is missing."""
    rows: list[tuple[str, doc.Inline]] = []
    for check in checks:
        rows.append((check.name, doc.Cell(f"{check.state}: {check.result}", _TONES.get(check.state, "muted"))))
        if check.fix:
            rows.append(("", f"fix: {check.fix}"))
    problems = sum(check.state == PROBLEM for check in checks)
    end = f"{problems} of {len(checks)} checks found a problem" if problems else "no problems found"
    return doc.Document("doctor", (doc.Facts(tuple(rows)), doc.Note(end, "strong")))
