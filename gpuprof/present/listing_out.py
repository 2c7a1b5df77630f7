"""A kernel's machine code as Markdown, with the columns of the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import KernelProfile, Session
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
from gpuprof.views.markdown import escape

_COLUMNS = (
    ("offset", offset_text), ("samples", share_text), ("main stall", main_stall_text), ("executed", executed_text),
    ("threads", threads_text), ("memory", access_text),
)  # fmt: skip


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
