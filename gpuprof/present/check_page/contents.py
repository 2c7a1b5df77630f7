"""The whole page of a review as one value: texts, and nothing for the templates to decide."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.present.check_alike import placed_findings
from gpuprof.present.check_blocks import blocks_of, file_name, ranked
from gpuprof.present.check_page.fixes import CodeFix, code_fixes
from gpuprof.present.check_page.kernels import ReviewedRow, code_rows
from gpuprof.present.check_page.provenance import head_facts, module_table, modules_left_out, notes_of, tool_facts
from gpuprof.present.check_page.room import Room
from gpuprof.present.check_page.section import CodeSection, code_section
from gpuprof.present.check_page.texts import sentence
from gpuprof.present.check_text import headline
from gpuprof.present.page.parts import LabelledText, Table
from gpuprof.review.contract import Review
from gpuprof.text import cut_middle, printable
from gpuprof.views.glossary import Term, glossary
from gpuprof.words.profile_values import count_text

_MOST_FIXES, _MOST_ROWS, _MOST_SECTIONS, _FILES = 20, 1000, 500, 3
_MOST_PRINTED = 20
"""Sections on paper, where none can be closed."""
_TITLE_LENGTH = 100
_TERMS = (
    Term("from code", "The instructions show it. What is a guess, they show a sign of. Neither says how long anything "
         "takes: for that, profile the kernel."),
    Term("trips", "Times that a loop runs each time it is entered. They are told where they are a constant of the "
         "code.", r"\btrips?\b"),
    Term("lane stride", "Bytes from the address of a lane of the warp to that of the next one, where it is the same "
         "for all lanes.", r"lane stride|lanes?\b"),
)  # fmt: skip


class ReviewContents(Struct, frozen=True, kw_only=True):
    """What the template shows."""

    title: str
    verdict: str
    header: tuple[LabelledText, ...]
    fixes: tuple[CodeFix, ...]
    fixes_left_out: str
    rows: tuple[ReviewedRow, ...]
    rows_left_out: str
    has_files: bool
    sections: tuple[CodeSection, ...]
    sections_left_out: str
    printed: int
    tools: tuple[LabelledText, ...]
    modules: Table
    modules_left_out: str
    notes: tuple[str, ...]
    terms: tuple[Term, ...]
    version: str


def contents_of(review: Review, top: int | None) -> ReviewContents:
    """Return everything that the page says of a review, with `top` kernels; 0 or None for as many as it can hold."""
    every = ranked(blocks_of(review))
    blocks = every[:top] if top else every
    detailed = blocks[:_MOST_SECTIONS]
    with_section = {block.kernel.id for block in detailed}
    placed = placed_findings(review, blocks)
    rows = tuple(code_rows(blocks[:_MOST_ROWS], with_section))
    room, advised = Room.of(detailed), dict[str, str]()
    page = ReviewContents(
        title=_title(review),
        verdict=sentence(headline(review)),
        header=tuple(head_facts(review)),
        fixes=tuple(code_fixes(placed[:_MOST_FIXES], with_section)),
        fixes_left_out=_more(len(placed) - _MOST_FIXES, "more finding"),
        rows=rows[:_MOST_ROWS],
        rows_left_out=_more(len(every) - len(blocks[:_MOST_ROWS]), "more kernel"),
        has_files=any(block.file for block in blocks),
        sections=tuple(code_section(block, room, advised) for block in detailed),
        sections_left_out=_more(len(every) - len(detailed), "more kernel"),
        printed=_MOST_PRINTED,
        tools=tuple(tool_facts(review, every)),
        modules=module_table(review),
        modules_left_out=modules_left_out(review),
        notes=notes_of(review),
        terms=(),
        version=printable(review.gpuprof_version),
    )
    return replace(page, terms=glossary(page, _TERMS))


def _title(review: Review) -> str:
    names = [cut_middle(printable(file_name(file)), _TITLE_LENGTH) for file in review.files]
    more = f" and {len(names) - _FILES} more" if len(names) > _FILES else ""
    return f"Code review: {', '.join(names[:_FILES])}{more}"


def _more(number: int, noun: str) -> str:
    return f"And {count_text(number, noun)}" if number > 0 else ""
