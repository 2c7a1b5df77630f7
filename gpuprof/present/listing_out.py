"""A kernel's machine code for machines: JSON and CSV with every instruction."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.csv_out import table_lines
from gpuprof.present.table import Cell, fields_of
from gpuprof.store.write import document_lines, dumped

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
