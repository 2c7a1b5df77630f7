"""Several files in one view: short names that tell them apart, and that every view names the file of a kernel."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gpuprof.diagnose.summary import summarised
from gpuprof.model.session import Session
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.fix_text import headline_text
from gpuprof.present.html import render_html
from gpuprof.present.markdown import markdown_lines
from gpuprof.present.notebook_html import notebook_html
from gpuprof.present.page.build import Choice, build_page
from gpuprof.present.plot import render_svg
from gpuprof.present.source_names import in_source, short_names, source_name
from gpuprof.privacy.border import without_private
from tests.readings import session_of
from tests.table import each_row
from tests.test_figures import HOSTILE, kernel, session
from tests.test_page import UNCOALESCED

RUN = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3" / "run-transformer" / "run"


def _two_files(first: str = "/home/someone/run-base.ncu-rep", second: str = "/data/run-fused.ncu-rep") -> Session:
    """One kernel recorded twice, far from itself, with a finding in each file."""
    kernels = [
        kernel(
            number, {"fp32": 1e9 * 20**number}, {"dram": 1e9 / 20**number}, label="gemm",
            duration_s=(number + 1) * 1e-3, findings=(UNCOALESCED,),
        )
        for number in (0, 1)
    ]  # fmt: skip
    read = session(*kernels)
    sources = tuple(replace(read.sources[0], file=file) for file in (first, second))
    return summarised(
        replace(read, sources=sources, kernels=tuple(replace(item, source=item.id) for item in read.kernels))
    )


@each_row(
    ("files", "names"),
    [
        (("a/MW_Baseline.ncu-rep", "b/MW_DivToMult.ncu-rep"), ("Baseline", "DivToMult")),
        (("base_H100_full.csv", "fused_H100_full.csv"), ("base", "fused")),
        (("run_1.ncu-rep", "run_2.ncu-rep"), ("run_1", "run_2")),
        (("report.ncu-rep", "report-fused.ncu-rep"), ("report", "report-fused")),
        (("x-profile.ncu-rep", "x-profile-26b4.ncu-rep", "x-profile-71fb.ncu-rep"),
         ("profile", "profile-26b4", "profile-71fb")),
        (("run.ncu-rep", "run.csv"), ("run.ncu-rep", "run.csv")),
        (("/data/before/run.ncu-rep", "/data/after/run.ncu-rep"), ("before", "after")),
        ((r"C:\old\run.csv", r"C:\new\run.csv"), ("old", "new")),
        (("run.ncu-rep", "run.ncu-rep"), ("file 1", "file 2")),
        (("a" * 60 + "1" + "b" * 60, "a" * 60 + "2" + "b" * 60), ("file 1", "file 2")),
    ],
)  # fmt: skip
def test_files_are_named_by_what_differs(files: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert short_names(files) == names


def test_one_file_is_not_named_anywhere() -> None:
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}))
    assert source_name(read, read.kernels[0]) == ""
    assert build_page(read, Choice()).rows[0].file == ""


def test_a_run_that_was_surveyed_is_one_whatever_its_profile_is_in() -> None:
    """A transformer on an H100: four of its kernels had to be looked for again, in a report of their own."""
    run = session_of(RUN / "session.json")
    files = {source.file for source in run.sources if not source.is_survey}
    assert files == {"profile.ncu-rep", "profile-again.ncu-rep"}
    assert {(kernel.source, in_source(run, kernel)) for kernel in run.kernels} == {(0, ""), (1, ""), (2, "")}


def test_page_chart_and_markdown_name_the_file_of_every_kernel() -> None:
    two = _two_files()
    built = build_page(two, Choice())
    assert [(row.id, row.file) for row in built.rows] == [(1, "fused"), (0, "base")]
    assert [line.kernels.text for line in built.fixes] == ["gemm in base and fused"]
    alone = replace(two, kernels=(two.kernels[0], replace(two.kernels[1], findings=())))
    assert [line.kernels.text for line in build_page(summarised(alone), Choice()).fixes] == ["#0 gemm in base"]
    assert hierarchical(two, 1).title == "gemm #1 in fused"
    same = replace(two, kernels=(two.kernels[0], replace(two.kernels[0], id=1, source=1)))
    assert "gemm #0, #1 in base and fused, " in render_svg(overview(same), "light")
    assert headline_text(two).startswith("gemm (fused) ")
    clean = without_private(_two_files("/home/someone/old/run.ncu-rep", "/home/someone/new/run.ncu-rep"))
    for private in ("\n".join(markdown_lines(clean, list(clean.kernels), 0)), notebook_html(clean)):
        assert "gemm in file 2" in private and "new" not in private


def test_a_hostile_file_name_is_text() -> None:
    html = render_html(_two_files(HOSTILE, "run.ncu-rep"))
    assert "<img" not in html
