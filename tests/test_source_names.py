"""Several files in one view: short names that tell them apart, and that every view names the file of a kernel."""

from __future__ import annotations

from pathlib import Path

from gpuprof.words.source_names import in_source, short_names
from tests.readings import session_of
from tests.table import each_row

RUN = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3" / "run-transformer" / "run"


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


def test_a_run_that_was_surveyed_is_one_whatever_its_profile_is_in() -> None:
    """A transformer on an H100: four of its kernels had to be looked for again, in a report of their own."""
    run = session_of(RUN / "session.json")
    files = {source.file for source in run.sources if not source.is_survey}
    assert files == {"profile.ncu-rep", "profile-again.ncu-rep"}
    assert {(kernel.source, in_source(run, kernel)) for kernel in run.kernels} == {(0, ""), (1, ""), (2, "")}
