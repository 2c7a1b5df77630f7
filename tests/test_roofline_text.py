"""What `gpuprof roofline` prints: the verdict first, then a line for each point, as wide as the terminal."""

from __future__ import annotations

import io
from pathlib import Path

from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.model.session import Session
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.roofline_text import print_rooflines
from tests.cli import gpuprof
from tests.readings import session_of
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


def test_the_verdict_comes_first_as_in_show(reports: Path, tmp_path: Path) -> None:
    report = str(reports / "gpu_workshop-MW_Baseline.ncu-rep")
    shown = gpuprof("show", report).stdout.splitlines()
    drawn = gpuprof("roofline", report, "-o", str(tmp_path / "r.svg")).stdout.splitlines()
    assert drawn[:3] == shown[:3]
    assert drawn[0].startswith("compute_tendencies_x_279_gpu, 40 % of the time, keeps the SMs 70 % busy")
    assert "Tesla V100-SXM2-32GB: DRAM roofline" in drawn


def test_the_verdict_is_on_the_kernels_that_are_picked(reports: Path, tmp_path: Path) -> None:
    report = str(reports / "gpu_workshop-MW_Baseline.ncu-rep")
    done = gpuprof("roofline", report, "--kernel", "semi", "-o", str(tmp_path / "r.svg"))
    assert done.stdout.startswith("semi_discrete_step_232_gpu") and "compute_tendencies" not in done.stdout


def test_a_kernel_is_a_line_with_the_columns_below_each_other() -> None:
    """By hand: 1e12 FLOP/s on 4e11 B/s is 2.50 FLOP/B, which DRAM at 1.00 TB/s allows 2.50 TFLOP/s: 40 %."""
    assert table(printed(TWO)) == [
        "#  kernel    share  path    intensity      achieved      roofline  of roofline  bound",
        "1  kernel_1   80 %  FP32  30.0 FLOP/B  7.50 TFLOP/s  10.0 TFLOP/s         75 %  compute",
        "0  kernel_0   20 %  FP32  2.50 FLOP/B  1.00 TFLOP/s  2.50 TFLOP/s         40 %  memory",
    ]


def test_a_kernel_alone_has_a_line_for_each_level_and_is_named_once(reports: Path) -> None:
    whole = session_of(reports / "gpu_workshop-MW_Baseline.ncu-rep")
    out = io.StringIO()
    print_rooflines(Console(file=out, width=100), whole, [hierarchical(whole, 2)], 20)
    start = out.getvalue().index("#  kernel")
    rows = [line.split() for line in out.getvalue()[start:].splitlines()[2:5]]
    assert rows[0][:6] == ["2", "compute_tendencies_x_279_gpu", "40", "%", "FP64", "L1"]
    assert [row[:2] for row in rows[1:]] == [["FP64", "L2"], ["FP64", "DRAM"]]


@each_row("width", WIDTHS)
@each_row("name", [LONG, "核" * 150, "kernel"])
def test_no_line_is_wider_than_the_terminal(width: int, name: str) -> None:
    made = session(*(replace(item, label=name) for item in TWO.kernels))
    text = printed(made, width)
    assert max(map(cell_len, text.splitlines())) <= width
    rows = table(text)
    assert max(map(cell_len, rows)) <= 140
    assert len({cell_len(row.rpartition(" ")[0].rstrip()) for row in rows}) == 1


def test_tensor_work_fits_the_narrowest_terminal(reports: Path) -> None:
    rows = table(printed(session_of(reports / "cutlass-384.ncu-rep"), 60))
    assert max(map(len, rows)) <= 60
    assert rows[1].split()[-3:] == ["15", "%", "compute"]


def test_long_names_keep_their_ends() -> None:
    made = session(*(replace(item, label=LONG) for item in TWO.kernels))
    assert all("…" in row and "(Params)" in row for row in table(printed(made, 100))[1:])


def test_what_top_leaves_out_is_counted_with_its_time() -> None:
    text = printed(TWO, top=1)
    assert len(table(text)) == 2
    assert "… and 1 more kernel, 20 % of the time: --top 0 shows all" in text.splitlines()
    assert "more kernel" not in printed(TWO, top=0)


def test_estimated_points_say_so() -> None:
    point = overview(TWO).points[0]
    assert not point.estimated and "estimated" not in printed(TWO)
    works = tuple(replace(work, basis="estimated") for work in TWO.kernels[0].work)
    made = session(replace(TWO.kernels[0], work=works), TWO.kernels[1])
    assert [row.endswith("estimated") for row in table(printed(made))[1:]] == [False, True]


def test_without_points_there_is_no_table_and_the_reason_is_told() -> None:
    text = printed(session(kernel(0), kernel(1)))
    assert "#  kernel" not in text and "Not drawn: kernel_0, kernel_1 (2 launches)" in text


def test_without_unicode_the_table_is_ascii() -> None:
    assert printed(TWO, encoding="ascii").isascii()
    assert "?" not in printed(TWO, encoding="ascii")
