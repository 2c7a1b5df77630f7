"""What recordings say of a comparison: planted cases against their repairs, and a program against itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gate.__main__ import main
from benchmarks.gate.recorded import planted_rows
from gpuprof.store.write import session_bytes
from tests.compare_builders import kernel, session
from tests.ncu_bytes import A100, simple_report


def test_recorded_cases_are_compared_with_their_repairs(tmp_path: Path) -> None:
    """Of a folder and of folders in it; nothing is said of cases that are held out unless that is asked for."""
    slow, fixed = ({**A100, "gpu__time_duration.sum": ns} for ns in (2e6, 1e6))
    both = simple_report([("slow", slow), ("fixed", fixed)])
    (tmp_path / "step").mkdir()
    for name, data in (("particle-step", both), ("step/total-above", b"no report"), ("step/matrix-transpose", both)):
        (tmp_path / f"{name}.ncu-rep").write_bytes(data)
    for unlike in ("another-program", "replica-mean", "vector-sum"):
        (tmp_path / f"{unlike}.ncu-rep").write_bytes(both)
    head, case, other = planted_rows(tmp_path)
    assert head[:4] == ("case", "time", "ratio", "work") and case[:3] == ("particle-step", "faster", "0.500")
    assert other[:2] == ("total-above", "not compared")
    rows = [row[:3] for row in planted_rows(tmp_path, held_out=True)]
    assert ("matrix-transpose", "faster", "0.500") in rows and len(rows) == 4


def test_both_tables_can_be_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--planted", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == ["case", "time", "ratio", "work", "first", "cause"]
    assert main(["--repeats", "a.json"]) == 2
    assert "--repeats" in capsys.readouterr().err
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(session_bytes(session(kernel("k", [1e-3]))))
    assert main(["--repeats", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("one run each         1            1")
