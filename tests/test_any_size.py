"""The measuring of reports of any size: what a run took, when it is ended, and that a made report is one."""

from __future__ import annotations

from pathlib import Path

from benchmarks.any_size import has_code
from benchmarks.large_reports import write_large
from gpuprof.read.container import walk
from tests.conftest import OWN_REPORTS


def test_a_made_report_is_read_by_nvidia_s_reader(tmp_path: Path) -> None:
    import ncu_report

    source, made = OWN_REPORTS[2], tmp_path / "made.ncu-rep"
    with made.open("wb") as file:
        write_large(source.read_bytes(), file, 40, 10)
    assert walk(made.read_bytes()).results == 40
    assert has_code(source) and has_code(made)
    context = ncu_report.load_report(str(made))
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    actions = [some.action_by_idx(index) for some in ranges for index in range(some.num_actions())]
    assert len({action.name() for action in actions}) == 10
    assert len({action.metric_by_name("gpu__time_duration.sum").value() for action in actions}) > 30
