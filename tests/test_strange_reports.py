"""Reports with what gpuprof does not know: NVIDIA's reader reads them, and that is said; damage inside launches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.model.recorded import Report
from gpuprof.read import native_report, ncu_rep
from gpuprof.read.container import walk
from gpuprof.read.native_report import FewActions, excerpt
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.wire import message, number, prefixed
from tests import ncu_bytes


class NoCode:
    """Stands for NVIDIA's reader of code."""

    def sources(self, number: int) -> dict[str, str]:
        return {}


DURATION, OPCODES, CYCLES = "gpu__time_duration.sum", "sass__inst_executed_per_opcode", "sm__cycles_active.avg"
NAMES = (DURATION, OPCODES, CYCLES, "device__attribute_display_name")
HISTOGRAM = message(13, number(1, 1) + message(3, message(1, message(1, b"FADD")) + message(2, number(5, 7))))


def read(tmp_path: Path, data: bytes, *, salvage: bool = False) -> Report:
    path = tmp_path / "made.ncu-rep"
    path.write_bytes(data)
    return read_ncu_rep(path, salvage=salvage)


def launch(name: str, results: bytes = b"", more: bytes = b"") -> bytes:
    return ncu_bytes.launch(name, {0: 5000.0, 3: "A GPU"}, results=HISTOGRAM + results) + more


def report(*launches: bytes, version: int = 7) -> bytes:
    session = ncu_bytes.session_details(versions={"Nsight Compute Target": "2031.1.0.0 (build 1)"})
    whole = ncu_bytes.report(ncu_bytes.block([], session=session), ncu_bytes.block(launches, NAMES, process=3))
    return whole.replace(prefixed(number(1, 7)), prefixed(number(1, version)), 1)


def facts(made: Report) -> list[tuple[object, ...]]:
    """What both readers must give."""
    return [
        (one.name, one.demangled, one.device, one.metrics.number(DURATION), one.metrics.instances(OPCODES))
        for one in made.launches
    ]


def test_a_newer_format_is_told_and_read_by_nvidias_reader(tmp_path: Path) -> None:
    known, newer = (read(tmp_path, report(launch("a"), launch("b"), version=version)) for version in (7, 8))
    assert not known.warnings
    assert newer.warnings == (
        "its format is version 8, which this gpuprof does not know: NVIDIA's reader has read the report",
    )
    assert facts(newer) == facts(known)
    assert newer.devices == known.devices
    assert newer.tool_version == known.tool_version


def test_what_nvidias_reader_reads_has_its_process_and_asks_for_every_name(tmp_path: Path) -> None:
    newer = read(tmp_path, report(launch("a"), launch("b"), version=8))
    assert [one.process for one in newer.launches] == [3, 3]
    assert newer.names is None, "where its table of names lies is not known"


def test_an_excerpt_has_the_launches_at_these_places_and_nothing_behind_damage(tmp_path: Path) -> None:
    data = report(launch("a"), launch("b"), launch("c"))
    spans = walk(data).spans
    chosen = excerpt(data + b"\xff\xff\xff\x7f", [spans[2].start, spans[0].start])
    assert [one.name for one in read(tmp_path, chosen).launches] == ["a", "c"]


def test_the_code_of_a_salvaged_launch_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[FewActions] = []

    def native(_: Path, actions: FewActions) -> NoCode:
        asked.append(actions)
        return NoCode()

    monkeypatch.setattr(ncu_rep, "CodeReader", native)
    made = read(tmp_path, report(launch("a", BROKEN), launch("b"), launch("c")), salvage=True)
    assert made.launches[1].details.source_files() == {}
    names = [asked[0][number].name(0) for number in range(len(asked[0]))]
    assert names == [one.name for one in made.launches] == ["b", "c"]


def test_a_rule_that_does_not_parse_is_an_error_with_its_offset(tmp_path: Path) -> None:
    broken = b"\x0a\x7f"
    data = report(launch("a", more=message(19, broken)))
    with pytest.raises(DamagedInput, match=f"at byte {data.index(broken)}, what a rule of NVIDIA's says"):
        read(tmp_path, data).launches[0].details.rule_results()


def test_a_format_that_nobody_knows_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DamagedInput, match="its format is version 3, which this gpuprof does not know") as caught:
        read(tmp_path, report(launch("a"), version=3))
    assert caught.value.hint == "pip install --upgrade ncu-report, and gpuprof; or export the report as CSV"


def test_an_unknown_field_of_a_launch_is_told_and_read_by_nvidias_reader(tmp_path: Path) -> None:
    strange = read(tmp_path, report(launch("a"), launch("b", more=message(77, b"new"))))
    assert strange.warnings == (
        "a kernel has a field 77, which this gpuprof does not know: NVIDIA's reader has read the report",
    )
    assert facts(strange) == facts(read(tmp_path, report(launch("a"), launch("b"))))


def test_a_value_of_an_unknown_form_is_asked_of_nvidias_reader(tmp_path: Path) -> None:
    strange = message(13, number(1, 2) + message(2, number(9, 1)))
    made = read(tmp_path, report(launch("a", strange)))
    assert made.launches[0].metrics.number(CYCLES) is None
    assert made.launches[0].metrics.has(CYCLES)


def test_an_instance_with_values_of_its_own_is_asked_of_nvidias_reader(tmp_path: Path) -> None:
    element = message(1, number(5, 16)) + message(2, number(5, 3)) + message(3, number(5, 1))
    made = read(tmp_path, report(launch("a", message(13, number(1, 2) + message(3, element)))))
    assert made.launches[0].metrics.instances(CYCLES) == {16: 3}


BROKEN = message(13, number(1, 2) + b"\x12\x09\x19\x00")
"""A metric whose value is cut off inside."""


def test_a_value_that_does_not_parse_is_an_error_with_its_offset(tmp_path: Path) -> None:
    data = report(launch("a"), launch("b", BROKEN))
    made = read(tmp_path, data)
    with pytest.raises(DamagedInput, match=rf"at byte \d+, the value of {CYCLES} cannot be read") as caught:
        made.launches[1].metrics.number(CYCLES)
    offset = int(str(caught.value).partition("at byte ")[2].partition(",")[0])
    assert 0 <= offset - data.index(BROKEN) <= len(BROKEN)
    assert made.launches[0].metrics.number(CYCLES) is None


def test_salvage_leaves_out_the_launch_with_a_broken_value(tmp_path: Path) -> None:
    made = read(tmp_path, report(launch("a"), launch("b", BROKEN), launch("c")), salvage=True)
    assert [one.name for one in made.launches] == ["a", "c"]
    assert [one.metrics.number(DURATION) for one in made.launches] == [5e-6, 5e-6]
    assert len(made.warnings) == 1 and made.warnings[0].endswith("1 of 3 launches are left out")


STRANGE = message(13, number(1, 2) + number(15, 1) + message(2, number(5, 8)))
"""A metric of 8 with a field that only a newer reader may know."""


def of_two_blocks(first: Sequence[bytes], second: Sequence[bytes]) -> bytes:
    """NVIDIA's reader finds launches of a block with damage, and nothing in them."""
    blocks = (ncu_bytes.block([], session=ncu_bytes.session_details()), *(
        ncu_bytes.block(launches, NAMES, process=3) for launches in (first, second)
    ))  # fmt: skip
    return ncu_bytes.report(*blocks)


def test_what_is_asked_of_nvidias_reader_is_of_the_same_launch(tmp_path: Path) -> None:
    nine = STRANGE.replace(b"\x28\x08", b"\x28\x09")
    whole = report(launch("a"), launch("b", STRANGE), launch("c", nine))
    assert [one.metrics.number(CYCLES) for one in read(tmp_path, whole)] == [None, 8, 9]
    broken = of_two_blocks([launch("a", BROKEN)], [launch("b"), launch("c", STRANGE), launch("d", nine)])
    salvaged = read(tmp_path, broken, salvage=True)
    assert [(one.name, one.metrics.number(CYCLES)) for one in salvaged] == [("b", None), ("c", 8), ("d", 9)]
    element = message(1, number(5, 16)) + message(2, number(5, 3)) + message(3, number(5, 1))
    listed = launch("c", message(13, number(1, 2) + message(3, element)))
    broken = of_two_blocks([launch("a", BROKEN)], [launch("b"), listed])
    assert [one.metrics.instances(CYCLES) for one in read(tmp_path, broken, salvage=True)] == [None, {16: 3}]


def test_a_launch_in_which_nvidias_reader_finds_nothing_is_an_error_or_left_out(tmp_path: Path) -> None:
    data = report(launch("a", BROKEN), launch("b", STRANGE), launch("c"))
    with pytest.raises(DamagedInput, match=r"NVIDIA's report reader finds nothing of launch 1$"):
        read(tmp_path, data).launches[1].metrics.number(CYCLES)
    assert [one.name for one in read(tmp_path, data, salvage=True)] == ["c"]


class Trials:
    """Stands for the children in which NVIDIA's reader is tried: counts them, and says how they end."""

    def __init__(self, fate: str | None) -> None:
        self.fate = fate
        self.count = 0

    def __call__(self, action: object) -> Trials:
        self.count += 1
        return self

    def outcome(self) -> str | None:
        return self.fate


def test_what_lies_before_a_cut_is_still_asked_of_nvidias_reader_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = Trials(None)
    monkeypatch.setattr(native_report, "start", trials)
    blocks = [ncu_bytes.block([launch(name, STRANGE)], NAMES, process=3) for name in "abcdef"]
    session = ncu_bytes.block([], session=ncu_bytes.session_details())
    salvaged = read(tmp_path, ncu_bytes.report(session, *blocks)[:-10], salvage=True)
    assert [(one.name, one.metrics.number(CYCLES)) for one in salvaged] == [(name, 8) for name in "abcde"]
    assert trials.count == 1


def test_nvidias_reader_is_tried_once_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials("crashes (SIGSEGV)")
    monkeypatch.setattr(native_report, "start", trials)
    data = report(launch("a", STRANGE), launch("b"), launch("c", STRANGE))
    assert [one.name for one in read(tmp_path, data, salvage=True)] == ["b"]
    assert trials.count == 1


def test_without_nvidias_reader_nothing_is_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    data = report(launch("a", STRANGE), launch("b"))
    first, second = read(tmp_path, data, salvage=True)
    assert second.metrics.number(DURATION) == 5e-6
    with pytest.raises(EnvironmentProblem, match="NVIDIA's report reader cannot be imported") as caught:
        first.metrics.number(CYCLES)
    assert caught.value.hint is not None and "pip install ncu-report" in caught.value.hint


def test_what_nvidias_reader_raises_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def name(self, kind: int) -> str:
            raise RuntimeError("no name")

    monkeypatch.setattr(native_report, "start", Trials(None))
    monkeypatch.setattr(native_report, "_each_action", lambda context: [Broken(), Broken()])
    (first, *_) = read(tmp_path, report(launch("a", STRANGE), launch("b")))
    with pytest.raises(DamagedInput, match=r"NVIDIA's report reader fails on its name: no name$"):
        first.metrics.number(CYCLES)
    assert [one.name for one in read(tmp_path, report(launch("a", STRANGE), launch("b")), salvage=True)] == ["b"]


def test_launches_that_nvidias_reader_does_not_find_are_not_asked_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = native_report._each_action
    monkeypatch.setattr(native_report, "_each_action", lambda context: islice(each(context), 1))
    (first, *_) = read(tmp_path, report(launch("a", STRANGE), launch("b")))
    with pytest.raises(DamagedInput, match=r"finds 1 of its 2 kernels$"):
        first.metrics.number(CYCLES)


def test_salvage_of_launches_that_all_are_broken_is_an_error(tmp_path: Path) -> None:
    data = report(launch("a", BROKEN), launch("b", BROKEN))
    with pytest.raises(DamagedInput, match=r"at byte \d+, .*; none of 2 launches can be read$") as caught:
        read(tmp_path, data, salvage=True)
    assert caught.value.hint == "copy the report again from where it was recorded, or profile again"


def test_a_message_that_does_not_parse_is_an_error_or_left_out(tmp_path: Path) -> None:
    data = report(launch("a"), launch("b", more=b"\x6a\x7f"))
    with pytest.raises(DamagedInput, match=r"at byte \d+, the message of a launch cannot be read"):
        read(tmp_path, data)
    assert [one.name for one in read(tmp_path, data, salvage=True).launches] == ["a"]


@pytest.mark.parametrize(("field", "kind"), [(7, "range"), (8, "command list"), (9, "graph")])
def test_results_that_are_no_kernels_have_metrics_and_a_kind(tmp_path: Path, field: int, kind: str) -> None:
    metric = message(4, number(1, 0) + message(2, number(5, 7000)))
    payload = prefixed(number(1, 1) + number(2, 1) + metric)
    header = number(1, 0) + message(4, message(1, DURATION.encode())) + number(5, len(payload)) + number(field, 1)
    made = read(tmp_path, ncu_bytes.report(prefixed(header) + payload))
    assert [one.kind for one in made.launches] == [kind]
    assert made.launches[0].metrics.number(DURATION) == pytest.approx(7e-6)
    assert made.launches[0].name == ("" if kind == "command list" else kind)
