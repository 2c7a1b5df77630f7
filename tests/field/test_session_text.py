"""Terminal and page on reports of others that lack work, architectures, shapes or durations."""

from __future__ import annotations

from gpuprof.views.roofline_data import overview
from gpuprof.words.profile_values import verdict_text
from tests.field.folder import report
from tests.readings import shown_session_of
from tests.table import each_row
from tests.test_session_text import numbers


@each_row(
    ("name", "counted", "drawn"),
    [
        ("hyper-spec-m-profile.ncu-rep", [1, 8, 2], 2),
        ("sglang-profile.ncu-rep", [1, 4, 2], 3),
        ("csv/bert-torch-details.csv", [9, 12, 91, 178, 26], 26),
    ],
)
def test_kernels_launches_and_configurations_are_counted(name: str, counted: list[float], drawn: int) -> None:
    read = shown_session_of(report(name))
    assert numbers(verdict_text(read))[: len(counted)] == counted
    assert f"of {drawn} " in overview(read).subtitle
