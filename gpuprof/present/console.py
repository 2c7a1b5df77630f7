"""Why a kernel takes its time, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.model.session import Session
from gpuprof.present.console_parts import Sheet
from gpuprof.present.console_tree import tree_lines
from gpuprof.views.terminal import print_blocks
from gpuprof.words.explain_node import ExplanationNode
from gpuprof.words.profile_values import device_text, samples_text, source_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def print_tree(console: Console, session: Session, tree: ExplanationNode) -> None:
    """Print why a kernel takes its time, and where the numbers come from."""
    from rich.text import Text

    sheet = Sheet.of(console)
    print_blocks(console, (*tree_lines(tree, sheet), Text(""), *_provenance(session, sheet)))


def _provenance(session: Session, sheet: Sheet) -> Iterator[Text]:
    """Say which GPU, which files and which tool the numbers come from."""
    for device in session.devices:
        yield sheet.hanging("GPU     ", device_text(device))
    for source in session.sources:
        yield sheet.hanging("Report  ", f"{source.file}: {source_text(source)}")
        for sampled in source.samples:
            yield sheet.hanging("        ", f"meanwhile GPU {sampled.gpu}, {samples_text(sampled)}")
