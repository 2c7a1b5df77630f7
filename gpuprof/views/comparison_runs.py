"""Where the numbers of a side of a comparison come from: its files, GPUs and commands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from gpuprof.comparison.sides import Run, Side
from gpuprof.model.session import Source
from gpuprof.views.document import Block, Facts, Inline, Note
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import device_text, samples_text, source_text

_NOT_RECORDED = "not recorded"


def run_facts(side: Side) -> Iterator[Block]:
    """Yield what is known of each run of a side."""
    for run in side.runs:
        yield Facts(tuple(_run(run)), label=file_name(run.file))
    if not side.runs:
        yield Note("No file.", "muted")


def _run(run: Run) -> Iterator[tuple[str, Inline]]:
    for device in run.session.devices:
        yield "GPU", device_text(device)
    yield "gpuprof", run.session.gpuprof_version
    for source in run.session.sources:
        yield from _source(source)


def _source(source: Source) -> Iterator[tuple[str, Inline]]:
    yield "File", source.file
    yield "SHA-256", source.sha256
    yield "Recorded with", f"{source.kind}: {source_text(source)}"
    yield "Driver", source.driver or _NOT_RECORDED
    if source.created_s is not None:
        when = datetime.fromtimestamp(source.created_s, tz=timezone.utc)
        yield "Recorded", f"{when:%Y-%m-%d %H:%M} UTC"
    yield "Command", source.command or _NOT_RECORDED
    for sampled in source.samples:
        yield f"GPU {sampled.gpu} during the run", samples_text(sampled)
    for warning in source.warnings:
        yield "Warning", warning
