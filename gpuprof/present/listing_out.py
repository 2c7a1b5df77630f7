"""A kernel's machine code for machines and reviews: JSON and CSV with every instruction, Markdown as the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.csv_out import table_lines
from gpuprof.present.listing_rows import (
    FoldedStretch,
    access_text,
    executed_text,
    folded_text,
    head_texts,
    listing_rows,
    main_stall_text,
    note_texts,
    offset_text,
    share_text,
    threads_text,
)
from gpuprof.present.markdown import escape
from gpuprof.present.table import Cell, fields_of
from gpuprof.store.write import document_lines, dumped

_COLUMNS = (
    ("offset", offset_text), ("samples", share_text), ("main stall", main_stall_text), ("executed", executed_text),
    ("threads", threads_text), ("memory", access_text),
)  # fmt: skip


_COUNTED = (
    "executed", "threads", "sectors", "sectors_ideal", "sectors_local", "wavefronts", "wavefronts_ideal",
)  # fmt: skip


def json_lines(session: Session, _kernel: KernelProfile, listing: Listing, _whole: bool) -> Iterator[str]:
    """Yield the listing as a JSON document, a line for each instruction."""
    yield "{"
    yield f'  "schema_version": {session.schema_version},'
    yield f'  "gpuprof_version": {dumped(session.gpuprof_version)},'
    yield from islice(document_lines(listing, ("functions", "instructions")), 1, None)


def rows(listing: Listing) -> list[dict[str, Cell]]:
    """Return a row for each instruction; all have the same keys, None means missing."""
    return [_row(listing, instruction) for instruction in listing.instructions]


def _row(listing: Listing, instruction: ListedInstruction) -> dict[str, Cell]:
    text = None
    if instruction.file is not None and instruction.line is not None:
        text = listing.source_lines.get(instruction.file, {}).get(instruction.line)
    function = listing.functions[instruction.function]
    return {
        "kernel": listing.kernel,
        "function": function.symbol or f"0x{function.address:x}",
        **fields_of(instruction, ("pc", "offset")),
        "sass": instruction.sass or None,
        **fields_of(instruction, ("file", "line")),
        "source": text,
        **fields_of(instruction, ("samples", "share")),
        "main_stall": instruction.stall.reason if instruction.stall is not None else None,
        **fields_of(instruction.stall, ("share",), "main_stall_"),
        **fields_of(instruction, _COUNTED),
        "findings": "; ".join(instruction.findings),
    }


def csv_lines(_session: Session, _kernel: KernelProfile, listing: Listing, _whole: bool) -> Iterator[str]:
    """Yield the header and a line for each instruction, without line ends."""
    yield from table_lines(rows(listing))


def markdown_lines(_session: Session, kernel: KernelProfile, listing: Listing, whole: bool) -> Iterator[str]:
    """Yield the listing as a Markdown table; what takes next to no time is folded unless the `whole` is wanted."""
    for number, text in enumerate(head_texts(kernel, listing)):
        yield f"**{escape(text)}**" if not number else escape(text)
        yield ""
    for text in note_texts(listing):
        yield f"- not known: {escape(text)}"
    columns = [column for column in _COLUMNS if column[0] == "offset" or any(map(column[1], listing.instructions))]
    yield ""
    yield f"| {' | '.join(head for head, _ in columns)} | SASS | finding |"
    yield f"|{'---:|' * len(columns)}---|---|"
    for row in listing_rows(listing, whole=whole):
        if isinstance(row, ListedInstruction):
            cells = [escape(text(row)) for _, text in columns]
            yield f"| {' | '.join((*cells, escape(row.sass), escape(', '.join(row.findings))))} |"
        elif isinstance(row, FoldedStretch):
            yield f"| {'| ' * len(columns)}{folded_text(row)} | |"
        elif row.place:
            place = row.place if row.is_function else row.place.rpartition("/")[2]
            text = f": {escape(row.text)}" if row.text else ""
            yield f"| {'| ' * len(columns)}**{escape(place)}**{text} | |"
