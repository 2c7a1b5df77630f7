"""What `gpuprof roofline` prints: the verdict first, then a line for each point, as wide as the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.model.session import Session
from gpuprof.present.figures import overview
from gpuprof.present.roofline_text import print_rooflines
from gpuprof.store.write import session_lines
from tests.cli import gpuprof
from tests.table import each_row
from tests.test_figures import TWO, kernel, session

LONG = "void cutlass::Kernel<cutlass::gemm::kernel::GemmUniversal<" + "cute::tuple<int>, " * 15 + "float>>(Params)"
WIDTHS = (60, 80, 100, 140, 200)


def printed(what: Session, width: int = 100, top: int = 20, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="replace", write_through=True)
    print_rooflines(Console(file=out, width=width), what, [overview(what)], top)
    return raw.getvalue().decode(encoding)


def table(text: str) -> list[str]:
    """The lines of the table: its head and its rows."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.split()[:2] == ["#", "kernel"])
    return [lines[start], *(line for line in lines[start + 2 :] if line.split()[0].isdigit())]


def test_the_verdict_comes_first_as_in_show(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text("\n".join(session_lines(TWO)), encoding="utf-8")
    shown = gpuprof("show", path).stdout.splitlines()
    drawn = gpuprof("roofline", path, "-o", tmp_path / "r.svg").stdout.splitlines()
    assert drawn[0] == shown[0] and drawn[0].startswith("kernel_1, 80 %")
    alone = gpuprof("roofline", path, "--kernel", "kernel_0", "-o", tmp_path / "one.svg").stdout
    assert alone.startswith("kernel_0") and "kernel_1" not in alone
    # A kernel alone has a line for each level and is named once.
    rows = [line.split() for line in alone[alone.index("#  kernel") :].splitlines()[2:5]]
    assert rows[0][:6] == ["0", "kernel_0", "20", "%", "FP32", "L1"]
    assert [row[:2] for row in rows[1:]] == [["FP32", "L2"], ["FP32", "DRAM"]]


@each_row("width", WIDTHS)
@each_row("name", [LONG, "核" * 150, "kernel"])
def test_no_line_is_wider_than_the_terminal(width: int, name: str) -> None:
    made = session(*(replace(item, label=name) for item in TWO.kernels))
    text = printed(made, width)
    assert max(map(cell_len, text.splitlines())) <= width
    rows = table(text)
    assert max(map(cell_len, rows)) <= 140
    assert len({cell_len(row.rpartition(" ")[0].rstrip()) for row in rows}) == 1


def test_what_top_leaves_out_is_counted_with_its_time() -> None:
    text = printed(TWO, top=1)
    assert len(table(text)) == 2
    assert re.search(r"^… and 1 more kernel, 20 % .* --top 0 ", text, re.MULTILINE)
    assert "--top 0" not in printed(TWO, top=0)


def test_estimated_points_say_so() -> None:
    point = overview(TWO).points[0]
    assert not point.estimated and "estimated" not in printed(TWO)
    works = tuple(replace(work, basis="estimated") for work in TWO.kernels[0].work)
    made = session(replace(TWO.kernels[0], work=works), TWO.kernels[1])
    assert [row.endswith("estimated") for row in table(printed(made))[1:]] == [False, True]


def test_without_points_there_is_no_table_and_without_unicode_it_is_ascii() -> None:
    text = printed(session(kernel(0), kernel(1)))
    assert "#  kernel" not in text and "kernel_0, kernel_1 (2 launches)" in text
    assert printed(TWO, encoding="ascii").isascii() and "?" not in printed(TWO, encoding="ascii")
