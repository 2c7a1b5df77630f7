"""A review in the terminal: which kernels, values and lines it has, at every width and with any name."""

from __future__ import annotations

import io
import unicodedata

from msgspec.structs import replace
from rich.console import Console

from gpuprof.review.contract import Review
from gpuprof.review.gate import gated_review
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.views.formats import formats_of
from gpuprof.views.options import WriteOptions
from gpuprof.views.review import print_review
from gpuprof.views.terminal import SCREEN_HEIGHT
from tests import reviews as made
from tests.table import each_row
from tests.test_compare_formats import HOSTILE_TEXTS


def shown(
    review: Review, *, width: int = 100, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> str:
    out = io.StringIO()
    print_review(Console(file=out, width=width, highlight=False), review, top=top, verbose=verbose, chosen=chosen)
    return out.getvalue()


def many(number: int) -> Review:
    kernels = []
    for index in range(number):
        finding = made.finding("rule", made.place(index + 1), headline=f"finding {index}")
        kernels.append(made.kernel(index, finding, label=f"kernel_{index}"))
    return made.review(*kernels)


def test_a_value_that_is_not_known_is_no_zero() -> None:
    kernel = made.kernel(block=None, occupancy=None, resources=made.resources(registers=None, spills=None))
    brief = shown(made.review(kernel))
    assert "not known" in brief and "occupancy needs --block" in brief
    text = shown(made.review(kernel), verbose=True)
    for quantity in ("block", "registers", "spills", "occupancy"):
        assert f"{quantity:<13}not known\n" in text
    assert "at 0x120" in shown(made.review(made.kernel(0, made.finding("rule", made.place(None)))))


def test_only_a_terminal_is_sent_to_the_option_for_checks_that_are_folded() -> None:
    kernels = [made.kernel(index, label=f"kernel_{index}") for index in range(5)]
    request = ReviewRequest(files=("new.cubin",))
    review = gated_review(request, lambda _: made.review(*kernels), fail_on=["registers:8"])
    assert "… and 2 more checks: -v shows all" in shown(review)
    assert shown(review, verbose=True).count("registers:8") == 5
    for form in ("md", "html"):
        text = "\n".join(formats_of("review")[form].lines(review, WriteOptions())).replace("<wbr>", "")
        assert "-v shows all" not in text and text.count("registers:8") == 5


def test_a_note_counts_the_kernels_that_lack_a_block() -> None:
    with_block = made.kernel(0)
    without = replace(made.kernel(1), block=None, occupancy=None)
    assert "occupancy of 1 kernel needs" in shown(made.review(with_block, without))


def test_a_screen_has_thirty_lines_and_top_0_everything() -> None:
    for review in (many(1), many(40), made.everything("word " * 40, "name" * 40)):
        for width in (80, 120):
            assert shown(review, width=width).count("\n") <= SCREEN_HEIGHT
    text = shown(many(40), top=0)
    assert all(f"#{index} kernel_{index}" in text and f"finding {index}\n" in text for index in range(40))
    text = shown(many(40), top=3)
    assert "finding 2\n" in text and "finding 3\n" not in text and "37 more" in text


def test_the_gravest_findings_come_first_and_each_once() -> None:
    spill = made.finding("spill", made.place(30, loops=0), severity="low", confidence="guess", headline="spills")
    first = made.kernel(0, spill, made.finding(), label="one")
    again = made.kernel(1, made.finding(), label="two")
    text = shown(made.review(first, again))
    assert text.index("Uncoalesced") < text.index("spills") and text.count("Uncoalesced") == 1
    assert "shown by the code" in text and "a guess" in text and "in 2 nested loops" in text


def test_architectures_that_take_the_same_are_one_row_and_one_section() -> None:
    finding = made.finding()
    kernels = [made.kernel(index, finding, target=target) for index, target in enumerate(("sm_80", "sm_90"))]
    text = shown(made.review(*kernels), verbose=True)
    assert text.count("#0 transpose_naive") == 2 and "#1 transpose_naive" not in text
    other = made.kernel(1, target="sm_90", resources=made.resources(registers=40))
    text = shown(made.review(kernels[0], other), verbose=True)
    assert "72 (sm_80); 40 (sm_90)" in text and "only sm_80" in text


def test_in_depth_accesses_have_their_cost_and_why_it_is_not_known() -> None:
    text = shown(made.review(made.kernel(0)), chosen=True, width=120)
    assert "32 sectors" in text and "32 wavefronts" in text and "not known (1)" in text
    assert text.count(made.UNKNOWN) == 1
    rows = [line.split() for line in text.split("\n") if line.startswith("transpose.cu:1")]
    assert rows[0] == ["transpose.cu:10", "1", "64", "16", "–"]
    assert rows[1] == ["transpose.cu:11", "2", "not", "constant", "16", "2"]


def test_equal_accesses_of_a_line_are_one_row() -> None:
    accesses = (made.access(offset=0x200, opcode="LDG.E.64"), made.access(), made.access(offset=0x210, line=13))
    text = shown(made.review(made.kernel(0, accesses=accesses)), chosen=True, width=140)
    assert "global load ×2" in text and "LDG.E, LDG.E.64" in text and "0x200" not in text


def test_other_places_of_a_finding_are_listed() -> None:
    places = (made.place(), made.place(pc=0x140), made.place(14, pc=0x150, sass="STG.E [R2], R3"))
    finding = replace(made.finding("rule", *places), more_places=4)
    text = shown(made.review(made.kernel(0, finding)), chosen=True, width=120)
    assert "transpose.cu:12 at 0x120: LDG.E R2, desc[UR4][R2.64] ×2" in text
    assert "transpose.cu:14 at 0x150: STG.E [R2], R3" in text and "and 4 more places" in text


@each_row("width", [60])
@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_steers_a_terminal_or_leaves_the_columns(text: str, width: int) -> None:
    for verbose in (False, True):
        for line in shown(made.everything(text, text), width=width, verbose=verbose).split("\n"):
            assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
            assert len(line) <= width


def test_without_unicode_everything_is_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    print_review(Console(file=out, width=100), made.review(made.kernel(0, made.finding())), verbose=True)
    out.flush()
    assert b"registers    72" in raw.getvalue()
