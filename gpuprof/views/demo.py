"""The output of `gpuprof demo`: slow kernels with their fixes, the other recordings, and the commands to try next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from gpuprof.comparison.compare import Compared
from gpuprof.model.session import Session
from gpuprof.model.version_pairs import version_pairs, what_to_fix
from gpuprof.recordings import Recording
from gpuprof.views import document as doc
from gpuprof.words.recommendations import recommendation_texts
from gpuprof.words.versions import action_text, outcome_text, saved_text, slow_text, why_texts


def story_view(recording: Recording, session: Session) -> doc.Document:
    """Return each slow version of a kernel with its fix and gain, in the order of the fixes, and the gain of all."""
    gpus = " and ".join(device.name or "a GPU of unknown name" for device in session.devices)
    made_by = "by this project"
    if recording.origin is not None:
        made_by = f"{recording.origin.repository}, {recording.origin.licence}"
    blocks: list[doc.Block] = [doc.Heading(f"{recording.title} ({gpus}, {made_by})", 1)]
    for pair in version_pairs(session.kernels):
        rows = (
            ("slow", doc.Cell(slow_text(pair.before, session), "bad")),
            ("why", "; ".join(why_texts(pair.finding))),
            ("fix", doc.Cell(action_text(pair.finding), "strong")),
            ("gain", doc.Cell(saved_text(pair), "good")),
        )
        blocks.append(doc.Facts(rows))
    blocks.append(doc.Note(outcome_text(session.kernels), "strong"))
    rest = what_to_fix(session.kernels[-1])
    if rest is not None:
        blocks.append(doc.Note(f"→ {action_text(rest)}"))
    return doc.Document(recording.title, tuple(blocks))


def comparison_blocks(compared: Compared, page: PurePath) -> Sequence[doc.Block]:
    """Return the comparison of the kernel before and after the first fix, in one sentence, and the path of its page."""
    change = compared.comparison.kernels[0]
    return (doc.Heading(f"The first fix, compared: {page}"), doc.Note(change.sentence, "muted"))


def others_blocks(others: Sequence[tuple[Recording, Session, PurePath]]) -> Sequence[doc.Block]:
    """Return the title, the first recommendation and the path of the page of each other recording."""
    rows: list[tuple[str, doc.Inline]] = []
    for recording, session, page in others:
        first = recommendation_texts(session)[0]
        fix = doc.Cell(f"{first.gain}  {first.headline}", "muted")
        rows += [(recording.name, recording.title), ("", fix), ("", str(page))]
    return (doc.Heading("More recordings: open their pages in a browser"), doc.Facts(tuple(rows)))


def next_blocks(compare: str, show: str) -> Sequence[doc.Block]:
    """Return commands for the user's own program or reports, and the given two for the recording."""
    return (
        doc.Heading("Next"),
        doc.Command("gpuprof run -- ./app", "With a GPU and ncu, a report, or two reports of your own:"),
        doc.Command("gpuprof show YOUR.ncu-rep"),
        doc.Command("gpuprof compare BASE.ncu-rep NEW.ncu-rep"),
        doc.Command(compare, "For the versions and the kernels above:"),
        doc.Command(show),
    )
