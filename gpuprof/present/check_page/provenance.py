"""Where a review is from: files, architectures, what is known of the launch, tools, modules and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.recorded import Dim3, dims_text
from gpuprof.present.check_blocks import Block, file_name
from gpuprof.present.check_page.texts import sentence
from gpuprof.present.page.parts import LabelledText, Table
from gpuprof.review.contract import Review, ReviewedKernel
from gpuprof.text import cut_middle, printable
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import capital

_FILES, _SIZES, _TARGETS, _TOOLS, _MODULES, _NOTES = 6, 4, 16, 20, 60, 40
_NAME_LENGTH, _TOOL_LENGTH = 100, 300
_FORMS = {"sass": "machine code", "ptx": "PTX"}


def head_facts(review: Review) -> Iterator[LabelledText]:
    """Yield what was read, for the head of the page."""
    files = [_name(file) for file in review.files]
    yield LabelledText("Files" if len(files) > 1 else "File", _listed(files, _FILES))
    targets = list(dict.fromkeys(printable(kernel.target) for kernel in review.kernels))
    if targets:
        yield LabelledText("Architectures" if len(targets) > 1 else "Architecture", _listed(targets, _TARGETS))
    if review.kernels:
        yield LabelledText("Launch", capital(_launch(review.kernels)))
        yield LabelledText("Line information", _lines(review.kernels))


def tool_facts(review: Review, blocks: Sequence[Block]) -> Iterator[LabelledText]:
    """Yield with what the review was made."""
    yield LabelledText("gpuprof", printable(review.gpuprof_version))
    for number, tool in enumerate(review.tools[:_TOOLS]):
        yield LabelledText(
            "Tools" if number == 0 else "",
            _tool(tool),
        )
    kernels, launches = len(review.kernels), sum(block.launches for block in blocks)
    yield LabelledText("Reviewed", count_text(launches, "launch", "es") if launches else count_text(kernels, "kernel"))


def module_table(review: Review) -> Table:
    """Return the device code of the files."""
    rows = tuple(
        (_name(module.origin), printable(module.target), _FORMS[module.form], str(module.kernels))
        for module in review.modules[:_MODULES]
    )
    return Table(heads=("Module", "Architecture", "Form", "Kernels"), rows=rows, numbers=(3,))


def modules_left_out(review: Review) -> str:
    """Say how many modules the table lacks; empty where it has all."""
    more = len(review.modules) - _MODULES
    return f"And {count_text(more, 'more module')}." if more > 0 else ""


def notes_of(review: Review) -> tuple[str, ...]:
    """Return what is assumed or was left out; a note of several kernels once, with how many have it."""
    by_note: dict[str, int] = {}
    for kernel in review.kernels:
        for note in dict.fromkeys(kernel.notes):
            by_note[note] = by_note.get(note, 0) + 1
    of_kernels = [
        f"{sentence(note)} ({count_text(number, 'kernel')})" for note, number in list(by_note.items())[:_NOTES]
    ]
    notes = [*map(sentence, review.notes[:_NOTES]), *of_kernels]
    more = max(0, len(review.notes) - _NOTES) + max(0, len(by_note) - _NOTES)
    return (*notes, *([f"And {count_text(more, 'more note')}: --format json has all."] if more else []))


def _launch(kernels: Sequence[ReviewedKernel]) -> str:
    """Write what is known of blocks, grids and dynamic shared memory."""
    blocks = list(dict.fromkeys(kernel.block for kernel in kernels))
    grids = list(dict.fromkeys(kernel.grid for kernel in kernels))
    texts = [_sizes("block", blocks), _sizes("grid", grids)]
    if any(kernel.resources.dynamic_shared_bytes is None for kernel in kernels):
        texts.append("dynamic shared memory not given")
    return ", ".join(texts)


def _sizes(what: str, sizes: Sequence[Dim3 | None]) -> str:
    known = [dims_text(size) for size in sizes if size is not None]
    if not known:
        return f"{what} not known"
    listed = " or ".join(known) if len(known) <= _SIZES else f"of {len(known)} sizes"
    return f"{what} {listed}{', not known for some kernels' if None in sizes else ''}"


def _lines(kernels: Sequence[ReviewedKernel]) -> str:
    number = sum(kernel.has_lines for kernel in kernels)
    if number == len(kernels):
        return "yes"
    return f"in {number} of {count_text(len(kernels), 'kernel')}" if number else "none: compile with -lineinfo"


def _tool(text: str) -> str:
    """Write a tool with its options."""
    return cut_middle(printable(text[: 8 * _TOOL_LENGTH]), _TOOL_LENGTH)


def _name(path: str) -> str:
    return cut_middle(printable(file_name(path)), _NAME_LENGTH)


def _listed(texts: Sequence[str], most: int) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{', '.join(texts[:most])}{more}"
