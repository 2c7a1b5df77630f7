"""Blocks on where the numbers of a session come from: files, ceilings, and peaks checked against the reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuprof.model.denominators import amount
from gpuprof.model.path_names import path_name
from gpuprof.model.session import Session
from gpuprof.units import format_si
from gpuprof.views.document import Block, Cell, Column, Facts, Fold, Heading, Note, Table, filled
from gpuprof.words.profile_values import ceiling_name, ceiling_text, count_text, samples_text, source_text
from gpuprof.words.provenance import source_facts

_PATH = re.compile(r"^(?:tensor\.)?(?:fp|int|bf|tf)\d+\b")
_HASH_SHOWN = 12


def origin(session: Session, most: int | None = None) -> tuple[tuple[str, str], ...]:
    """Return the first `most` files of a session as facts, and the gpuprof that read them."""
    rows = []
    for source in session.sources[:most]:
        rows.append(("Report", f"{source.file} (sha256 {source.sha256[:_HASH_SHOWN]}), {source_text(source)}"))
        for sampled in source.samples:
            rows.append(("", f"meanwhile GPU {sampled.gpu}, {samples_text(sampled)}"))
    left_out = len(session.sources) - len(session.sources[:most])
    if left_out:
        rows.append(("", f"and {count_text(left_out, 'more report')}"))
    return (*rows, ("gpuprof", session.gpuprof_version))


def provenance(session: Session) -> Iterator[Block]:
    """Yield the origin of the numbers in brief."""
    yield Heading("Provenance", anchor="provenance")
    yield Facts(origin(session))


def provenance_in_full(session: Session) -> Iterator[Block]:
    """Yield everything on the files, the ceilings and the peaks."""
    files = tuple(Facts(tuple(source_facts(source)), source.file) for source in session.sources)
    if files:
        yield Fold("Files in full", files)
    if session.ceilings:
        note = "At clock: at the SM clock of the longest kernel. Each kernel's percentages are taken at its own clock."
        yield Fold("Ceilings", (Note(note, "muted"), _ceilings(session)))
    if session.denominators:
        note = "A percentage of a wrong peak is wrong. The reports themselves imply some of these peaks."
        yield Fold("Peaks of the spec, checked against the reports", (Note(note, "muted"), _denominators(session)))


def _ceilings(session: Session) -> Table:
    columns = (
        Column("ceiling"), Column("GPU", rank=2), Column("origin"), Column("value", "number"),
        Column("clock", "number", rank=1), Column("source", rank=3),
    )  # fmt: skip
    rows = []
    for ceiling in session.ceilings:
        value = Cell(ceiling_text(ceiling), order=ceiling.value)
        clock = format_si(ceiling.clock_hz, "Hz") if ceiling.clock_hz is not None else "no clock"
        gpu = _gpu_name(session, ceiling.device)
        rows.append((ceiling_name(ceiling), gpu, ceiling.origin.replace("-", " "), value, clock, ceiling.source))
    return filled(Table("Ceilings and their sources", columns, tuple(rows)))


def _denominators(session: Session) -> Table:
    columns = (
        Column("peak"), Column("GPU", rank=1), Column("report implies", "number"), Column("spec says", "number"),
        Column("verdict"), Column("implied by", rank=2), Column("specified by", rank=3),
    )  # fmt: skip
    rows = []
    for check in session.denominators:
        name = _PATH.sub(lambda match: path_name(match[0]), check.unit)
        amounts = [amount(value, check.measure) for value in (check.implied, check.specified)]
        origins = (check.reason or "agrees", check.implied_by, check.specified_by)
        rows.append((name, _gpu_name(session, check.device), *amounts, *origins))
    return filled(Table("Peaks that the reports imply", columns, tuple(rows)))


def _gpu_name(session: Session, number: int) -> str:
    """Return the name of one of several GPUs; empty if there is one."""
    if len(session.devices) < 2:
        return ""
    names = {device.id: device.name for device in session.devices}
    return names.get(number) or f"GPU {number}"
