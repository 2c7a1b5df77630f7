"""`gpuprof roofline`: never an empty figure, and what else it draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuprof.cli.main import cli
from gpuprof.errors import InputError
from gpuprof.model.session import Session, Throughput
from gpuprof.store.write import session_lines
from tests.table import each_row
from tests.test_figures import COPY, TWO, kernel, session
from tests.test_timeline import kernel as traced
from tests.test_timeline import session as trace_session
from tests.test_timeline import trace

NO_DATA = session(kernel(0, throughput=()))
TRACE = trace_session(trace(traced("first", 0, 1.5)))
ONLY_THROUGHPUT = session(kernel(0, throughput=(Throughput("sm", 0.25), Throughput("memory", 0.75))))


def drawn(read: Session, folder: Path, *options: str) -> tuple[str, str]:
    file = folder / "one.session.json"
    file.write_text("\n".join(session_lines(read)), encoding="utf-8")
    arguments = ["roofline", str(file), "-o", str(folder / "figures"), *options]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@each_row(("read", "reason"), [(NO_DATA, "work not collected"), (TRACE, "a trace has times but no counters")])
def test_nothing_is_written_if_nothing_can_be_drawn(read: Session, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        drawn(read, tmp_path)
    assert caught.value.exit_code == 5 and "ncu --set full" in (caught.value.hint or "")
    assert not (tmp_path / "figures").exists()


def test_data_without_a_point_says_why(tmp_path: Path) -> None:
    text, _ = drawn(NO_DATA, tmp_path, "--format", "json")
    (figure,) = json.loads(text)["figures"]
    assert figure["points"] == [] and figure["left_out"][0]["why"] == "work not collected"


def test_throughput_is_drawn_if_there_is_no_roofline_data(tmp_path: Path) -> None:
    text, remarks = drawn(ONLY_THROUGHPUT, tmp_path)
    assert "memory" in text and "75 %" in text
    assert "the figure shows throughput of SMs and memory" in remarks
    assert b'data-kernel="0"' in (tmp_path / "figures" / "roofline.svg").read_bytes()


def test_text_and_data_name_the_limit_by_the_diagnosis(tmp_path: Path) -> None:
    busy = (Throughput("sm", 0.25), Throughput("l2", 0.9), Throughput("dram", 0.3))
    read = session(kernel(0, {"fp32": 1e9}, {"l2": 2e9, "dram": 5e8}, throughput=busy), *TWO.kernels[1:], COPY)
    text, _ = drawn(read, tmp_path)
    assert "L2-bound" in text and "memory-bound" not in text
    text, _ = drawn(read, tmp_path, "--format", "json")
    data = json.loads(text)
    (figure,) = data["figures"]
    assert {point["limit"] for point in figure["points"] if point["kernel"] == 0} == {"L2-bound"}
    assert {point["ridge"] for point in figure["points"]} == {"left", "right"}
    assert [row["kernel"] for row in data["bandwidths"]] == [2] and data["throughputs"] == []
