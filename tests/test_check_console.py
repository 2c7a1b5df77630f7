"""A review in the terminal: which kernels and lines it has, at every width and with any name."""

from __future__ import annotations

import io
import unicodedata

from rich.console import Console

from gpuprof.present.check_console import print_review
from gpuprof.review.contract import Review
from tests import reviews as made
from tests.table import each_row
from tests.test_compare_formats import HOSTILE_TEXTS


def shown(
    review: Review, *, width: int = 100, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> str:
    out = io.StringIO()
    print_review(Console(file=out, width=width, highlight=False), review, top=top, verbose=verbose, chosen=chosen)
    return out.getvalue()


def test_what_is_not_known_is_no_zero() -> None:
    kernel = made.kernel(block=None, occupancy=None, resources=made.resources(registers=None, spills=None))
    text = shown(made.review(kernel))
    assert "registers not known" in text and "spill" not in text and "--block" in text
    assert "occupancy not known" in shown(made.review(made.kernel(occupancy=None)))
    assert "at 0x120: " in shown(made.review(made.kernel(0, made.finding("rule", made.place(None)))))


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
    assert b"72 registers" in raw.getvalue()
