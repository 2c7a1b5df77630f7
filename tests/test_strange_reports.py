"""Reports with what gpuprof does not know: it is left out, and that is said, or refused; damage inside launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.rule_messages import results_of
from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.quantities import EXPORT_REPORT
from gpuprof.model.recorded import Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.wire import message, number, prefixed
from tests import ncu_bytes
from tests.table import each_row

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
    return [
        (one.name, one.demangled, one.device, one.metrics.number(DURATION), one.metrics.instances(OPCODES))
        for one in made.launches
    ]


@each_row("version", [0, 3, 8])
def test_another_format_is_refused_with_the_way_out_and_salvage_reads_what_it_can(tmp_path: Path, version: int) -> None:
    data = report(launch("a"), launch("b"), version=version)
    with pytest.raises(InputError, match=f"version {version}") as caught:
        read(tmp_path, data)
    assert not isinstance(caught.value, DamagedInput)
    assert caught.value.hint is not None
    assert EXPORT_REPORT in caught.value.hint and "--salvage" in caught.value.hint
    known, salvaged = read(tmp_path, report(launch("a"), launch("b"))), read(tmp_path, data, salvage=True)
    assert facts(salvaged) == facts(known) and salvaged.devices == known.devices
    (warning,) = salvaged.warnings
    assert f"version {version}" in warning and not known.warnings


def of_block(*fields: bytes, entries: int = 1, results: int = 1) -> bytes:
    """A report of a block with launches of its own, and with these fields in its header, too."""
    payload = b"".join(prefixed(launch(f"k{at}")) for at in range(entries))
    names = message(4, b"".join(message(1, name.encode()) for name in NAMES))
    header = number(1, 0) + number(2, results) + names + number(5, len(payload)) + b"".join(fields)
    return ncu_bytes.report(ncu_bytes.block([launch("first")], NAMES), prefixed(header) + payload)


def test_an_unknown_field_is_left_out_with_a_warning(tmp_path: Path) -> None:
    made = read(tmp_path, of_block(message(11, b"new")))
    assert [each.name for each in made] == ["first", "k0"] and "field 11" in made.warnings[-1]
    strange = read(tmp_path, report(launch("a"), launch("b", more=message(77, b"new"))))
    assert len(strange.warnings) == 1 and "field 77" in strange.warnings[0]
    assert facts(strange) == facts(read(tmp_path, report(launch("a"), launch("b"))))


@each_row(("field", "part"), [(number(11, 1), "field 11"), (number(7, 1), "several kinds")])
def test_entries_of_a_kind_that_is_not_known_are_refused_with_the_way_out(
    tmp_path: Path, field: bytes, part: str
) -> None:
    data = of_block(field, entries=2)
    with pytest.raises(InputError, match=part) as caught:
        read(tmp_path, data)
    assert caught.value.hint is not None and EXPORT_REPORT in caught.value.hint
    salvaged = read(tmp_path, data, salvage=True)
    assert [each.name for each in salvaged] == ["first"] and part in salvaged.warnings[0]


KEY, THREE = message(1, number(5, 16)), message(2, number(5, 3))
STRANGE = (
    pytest.param(message(2, number(9, 1)), id="a value of another type"),
    pytest.param(message(3, KEY + THREE) + message(3, KEY + message(2, number(9, 1))), id="an instance of another"),
    pytest.param(message(3, message(1, b"\x19" + bytes(8)) + message(2, number(5, 3))), id="a key that is no key"),
)


@each_row("content", STRANGE)
def test_a_value_of_an_unknown_form_is_missing_and_no_zero(tmp_path: Path, content: bytes) -> None:
    data = report(launch("a"), launch("b", message(13, number(1, 2) + content)), launch("c"))
    for salvage in (False, True):
        made = read(tmp_path, data, salvage=salvage)
        assert [each.name for each in made] == ["a", "b", "c"] and not made.warnings
        metrics = made.launches[1].metrics
        assert metrics.number(CYCLES) is None and metrics.get(CYCLES) is None and metrics.instances(CYCLES) is None
        assert metrics.has(CYCLES) and metrics.is_strange(CYCLES)
        assert not metrics.is_strange(DURATION) and not made.launches[0].metrics.is_strange(CYCLES)


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


def test_salvage_leaves_out_broken_launches_and_is_an_error_if_all_are(tmp_path: Path) -> None:
    made = read(tmp_path, report(launch("a"), launch("b", BROKEN), launch("c")), salvage=True)
    assert [(each.name, each.metrics.number(DURATION)) for each in made] == [("a", 5e-6), ("c", 5e-6)]
    assert len(made.warnings) == 1 and "1 of 3" in made.warnings[0]
    with pytest.raises(DamagedInput, match=r"at byte \d+, .*; none of 2"):
        read(tmp_path, report(launch("a", BROKEN), launch("b", BROKEN)), salvage=True)
    unparsable = report(launch("a"), launch("b", more=b"\x6a\x7f"))
    with pytest.raises(DamagedInput, match=r"at byte \d+,"):
        read(tmp_path, unparsable)
    assert [each.name for each in read(tmp_path, unparsable, salvage=True)] == ["a"]
    data = report(launch("a", more=message(19, b"\x0a\x7f")))
    with pytest.raises(DamagedInput, match=f"at byte {data.index(bytes([10, 127]))},"):
        results_of(read(tmp_path, data).launches[0])
