"""A review in the terminal: which kernels and lines it has, at every width and with any name."""

from __future__ import annotations

import io
import unicodedata

import pytest
from rich.console import Console

from gpuprof.present.check_console import print_review
from gpuprof.review.contract import Review
from tests import reviews as made
from tests.table import each_row
from tests.test_check_formats import many, with_numbers
from tests.test_compare_formats import HOSTILE_TEXTS, ODD_NUMBERS


def shown(
    review: Review, *, width: int = 100, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> str:
    out = io.StringIO()
    print_review(Console(file=out, width=width, highlight=False), review, top=top, verbose=verbose, chosen=chosen)
    return out.getvalue()


def heads(text: str) -> list[str]:
    """The lines that begin a kernel."""
    return [line for line in text.split("\n") if line.startswith("#")]


def test_what_is_not_known_is_no_zero() -> None:
    kernel = made.kernel(block=None, occupancy=None, resources=made.resources(registers=None, spills=None))
    text = shown(made.review(kernel))
    assert "registers not known" in text and "spill" not in text and "--block" in text
    assert "occupancy not known" in shown(made.review(made.kernel(occupancy=None)))
    assert "at 0x120: " in shown(made.review(made.kernel(0, made.finding("rule", made.place(None)))))


def test_a_kernel_for_several_architectures_is_told_once_with_what_differs() -> None:
    lean = made.resources(registers=40, spills=None, static_shared_bytes=0, stack_bytes=0)
    full = made.occupancy(fraction=1.0, limiters=(), steps=())
    text = shown(
        made.review(
            made.kernel(0, made.finding(), made.finding("double", headline="FP64 in FP32")),
            made.kernel(1, made.finding(), target="sm_80", resources=lean, occupancy=full),
        )
    )
    assert text.count("transpose_naive") == 1 and text.count("Uncoalesced") == 1
    assert "   sm_90: 72 registers" in text and "   sm_80: 40 registers; occupancy 100 %" in text
    assert "FP64 in FP32 (sm_90)" in text
    same = [made.kernel(number, target=target) for number, target in enumerate(("sm_80", "sm_86", "sm_90"))]
    assert "   sm_80, sm_86, sm_90: 72 registers" in shown(made.review(*same))
    both = shown(made.review(made.kernel(0), made.kernel(1, target="sm_80")), verbose=True)
    assert both.count("global load") == shown(made.review(made.kernel(0)), verbose=True).count("global load")


def test_launches_of_a_configuration_are_told_once_and_kernels_of_one_name_apart() -> None:
    same = [made.kernel(number, made.finding(), launch=number, grid=(64, 1, 1)) for number in range(12)]
    assert heads(shown(made.review(*same))) == ["#0 transpose_naive  sm_90, grid 64, block 256, 12 launches"]
    blocks = [
        made.kernel(n, launch=n, block=(32 * (1 + n % 2), 1, 1), occupancy=made.occupancy(fraction=0.25 * (1 + n % 2)))
        for n in range(4)
    ]
    text = shown(made.review(*blocks))
    assert len(heads(text)) == 1 and "   block 32: 72 registers" in text and "   block 64: 72 registers" in text
    assert len(heads(shown(made.review(made.kernel(0), made.kernel(1))))) == 2
    files = heads(shown(made.review(made.kernel(0, origin="a/old.cu"), made.kernel(1, origin="b/new.cu"))))
    assert [head.split()[-1] for head in files] == ["old.cu", "new.cu"]


@each_row(
    ("static", "dynamic", "told"),
    [(1008, None, "1008 B shared"), (0, 49152, "48 KiB dynamic"), (1024, 1024, "2 KiB shared (1 KiB"), (0, None, "7 ")],
)
def test_shared_memory_of_the_launch_is_told_apart_from_that_of_the_code(
    static: int, dynamic: int | None, told: str
) -> None:
    sizes = made.resources(static_shared_bytes=static, dynamic_shared_bytes=dynamic)
    assert shown(made.review(made.kernel(resources=sizes))).split("\n")[3].split(", ")[1].startswith(told)


def test_a_screen_has_30_lines_and_counts_the_kernels_that_it_leaves_out() -> None:
    for number in (1, 5, 12, 500):
        text = shown(many(number), width=80)
        assert text.count("\n") < 30
        assert len(heads(text)) >= min(number, 3)
        assert (f" {number - len(heads(text))} more kernel" in text) is (len(heads(text)) < number)
    for top, number in ((2, 2), (0, 40)):
        assert len(heads(shown(many(40), top=top))) == number


def test_kernels_with_findings_in_the_deepest_loops_come_first() -> None:
    review = made.review(
        made.kernel(0, label="quiet"),
        made.kernel(1, made.finding(loop_depth=0), label="shallow"),
        made.kernel(2, made.finding(loop_depth=3), label="deep"),
    )
    assert [head.split()[1] for head in heads(shown(review))] == ["deep", "shallow", "quiet"]


def test_accesses_that_are_alike_are_a_row_and_of_many_the_costly_are_shown() -> None:
    unrolled = tuple(made.access(offset=16 * number) for number in range(8))
    assert "global load ×8" in shown(made.review(made.kernel(accesses=unrolled)), verbose=True)
    unknown = {"sectors_per_request": None, "lane_stride_bytes": None}
    listed = [made.access(line=n, unknown=("a", "b")[n % 2], **unknown) for n in range(1, 9)]
    text = shown(made.review(made.kernel(accesses=tuple(listed))), verbose=True)
    assert text.count("not known (1)") == text.count("not known (2)") == 4
    assert text.count("   (1) b\n   (2) a\n") == 1
    cheap = [made.access(offset=n, line=100 + n, sectors_per_request=4.0) for n in range(200)]
    text = shown(made.review(made.kernel(accesses=(*cheap, made.access(offset=9999, line=7)))), verbose=True)
    assert "transpose.cu:7 " in text and " 161 more lines" in text


def test_a_kernel_that_was_chosen_has_no_number() -> None:
    review = made.review(made.kernel(0, made.finding()))
    assert "#0" not in shown(review, chosen=True) and len(shown(review, chosen=True)) > len(shown(review))


@pytest.mark.parametrize("width", [60, 120])
@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_steers_a_terminal_or_leaves_the_columns(text: str, width: int) -> None:
    for verbose in (False, True):
        for line in shown(made.everything(text, text), width=width, verbose=verbose).split("\n"):
            assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
            assert len(line) <= width


def test_odd_numbers_are_never_shown_as_numbers() -> None:
    for number in ODD_NUMBERS:
        text = shown(with_numbers(made.everything(), number), verbose=True)
        assert " nan" not in text and " inf" not in text


def test_without_unicode_everything_is_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    print_review(Console(file=out, width=100), made.review(made.kernel(0, made.finding())), verbose=True)
    out.flush()
    assert b"72 registers" in raw.getvalue()
