"""The values that gpuprof reads itself, against NVIDIA's reader: every metric of every launch, all instances."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import Any

import ncu_report
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.rule_messages import results_of
from gpuprof.read.container import walk
from gpuprof.read.metric_values import Instance
from gpuprof.read.ncu_messages import LaunchMessages
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.protobuf import as_bytes, as_int, fields
from gpuprof.read.wire import message, number
from tests import ncu_bytes
from tests.conftest import OWN_REPORTS

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
"""Recorded on an H100 with ncu 2025.3: kernels, graphs as a whole and by their nodes, every counter set."""
OTHERS = sorted({*H100.rglob("*.ncu-rep")} - {*OWN_REPORTS, H100 / "run-launches" / "full.ncu-rep"})


def messages_of(data: bytes) -> LaunchMessages:
    container = walk(data)
    assert container.damage is None and container.strange is None
    return LaunchMessages("a report", data, container.names, container.spans)


@cache
def actions_of(path: str) -> list[Any]:
    context = ncu_report.load_report(path)
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    return [profiled.action_by_idx(index) for profiled in ranges for index in range(profiled.num_actions())]


def nvidias(metric: Any, *index: int) -> Any:
    """A value of NVIDIA's reader: None for one of no kind."""
    return None if metric.kind(*index) == metric.ValueKind_ANY else metric.value(*index)


def nvidias_instances(metric: Any) -> list[Instance]:
    keys = metric.correlation_ids() if metric.has_correlation_ids() else None
    return [
        (nvidias(keys, index) if keys is not None else None, nvidias(metric, index))
        for index in range(metric.num_instances())
    ]


def same(mine: Any, other: Any) -> bool:
    return bool(mine == other or (mine != mine and other != other))  # noqa: PLR0124


def names_with_values(messages: LaunchMessages, launch: int) -> set[str]:
    """The metrics of a launch that have a value, and not only a list of them, by a plain reading of its message."""
    table, span = messages.table, messages.spans[launch]
    metrics = [
        value for field, value, _ in fields(messages.data[span.start : span.end], 0) if field == span.form.metrics
    ]
    parts = [{field: value for field, value, _ in fields(as_bytes(metric, 0), 0)} for metric in metrics]
    return {table[as_int(part[1], 0)] for part in parts if part.get(2)}


def compared(messages: LaunchMessages, launch: int, action: Any) -> int:
    """Compare all metrics of a launch, and return how many numbers and texts were compared."""
    names = {name for name in action.metric_names() if name}
    assert set(messages.names(launch)) == names
    count, valued = 0, names_with_values(messages, launch)
    for name in sorted(names):
        metric = action.metric_by_name(name)
        mine, theirs = next(messages.values(launch, (name,))), nvidias(metric)
        instances, listed = messages.instances(launch, name), nvidias_instances(metric)
        if name in valued:
            assert same(mine, theirs), name
        else:  # NVIDIA's reader gives zero for some of them; a value that was not recorded is none
            assert mine is None and theirs in (None, 0, ""), name
        assert len(instances) == len(listed), name
        for (key, value), (their_key, their_value) in zip(instances, listed, strict=True):
            assert key == their_key and same(value, their_value), name
        count += 1 + len(listed)
    return count


def test_every_value_name_range_and_rule_of_every_launch_is_nvidias(real_report: Path) -> None:
    compare_report(real_report)


@pytest.mark.slow
def test_every_recording_of_our_own_has_the_values_of_nvidias_reader() -> None:
    for path in OTHERS:
        compare_report(path)


def compare_report(path: Path) -> None:
    messages, actions = messages_of(path.read_bytes()), actions_of(str(path))
    assert len(messages.spans) == len(actions)
    assert sum(compared(messages, number, action) for number, action in enumerate(actions)) > 100
    for launch, action in zip(read_ncu_rep(path).launches, actions, strict=True):
        assert launch.name == action.name(action.NameBase_FUNCTION)
        assert launch.demangled == action.name(action.NameBase_DEMANGLED)
        assert launch.mangled == action.name(action.NameBase_MANGLED)
        said = [entry.get("rule_identifier") for entry in action.rule_results_as_dicts()]
        assert [result.rule for result in results_of(launch)] == said


FLOATS = st.floats(width=64)
UINT64 = st.integers(0, 2**64 - 1)


def encoded(kind: int, value: Any) -> bytes:
    """A ProfileMetricValue: of kind 1 text, 2 float, 3 double, 4 and 5 numbers."""
    if kind == 1:
        return message(1, str(value).encode())
    if kind in (2, 3):
        return bytes([kind << 3 | (5 if kind == 2 else 1)]) + struct.pack("<f" if kind == 2 else "<d", value)
    return number(kind, value)


NUMERIC = st.one_of(
    st.tuples(st.just(2), st.floats(width=32)),
    st.tuples(st.just(3), FLOATS),
    st.tuples(st.just(4), st.integers(0, 2**32 - 1)),
    st.tuples(st.just(5), UINT64),
)
TEXTS = st.tuples(st.just(1), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200))
VALUES = st.one_of(TEXTS, NUMERIC)
KEYS = st.one_of(
    st.none(), st.tuples(st.just(5), UINT64), st.tuples(st.just(1), st.text("ABCXYZ.", min_size=1, max_size=140))
)


@st.composite
def metrics(draw: st.DrawFn) -> bytes:
    """A ProfileMetricResult without its name, in the order of fields that ncu writes.

    The category 1, of sampled counters, is left to numbers: NVIDIA's reader makes zero of a text in it.
    """
    values = draw(st.sampled_from((VALUES, NUMERIC)))
    out = message(2, encoded(*draw(values))) if draw(st.booleans()) else b""
    for _ in range(draw(st.integers(0, 5))):
        key = draw(KEYS)
        element = message(1, encoded(*key)) if key is not None else b""
        out += message(3, element + message(2, encoded(*draw(values))))
    return out + (number(4, 0) if draw(st.booleans()) else b"")


NUMBERS = (0, 1, 126, 127, 128, 129, 300)
"""Numbers of names that take one or two bytes; those of odd names are attributes of a GPU."""
TABLE = ncu_bytes.block([], [f"{'device__attribute_' if at % 2 else 'sm__'}{at}" for at in range(max(NUMBERS) + 1)])
LAUNCHES = st.lists(st.dictionaries(st.sampled_from(NUMBERS), metrics(), max_size=5), min_size=1, max_size=3)


@settings(max_examples=60)
@given(launches=LAUNCHES)
def test_made_up_values_are_nvidias(launches: list[dict[int, bytes]], tmp_path_factory: pytest.TempPathFactory) -> None:
    results = [b"".join(message(13, number(1, name) + rest) for name, rest in own.items()) for own in launches]
    blocks = ncu_bytes.block([ncu_bytes.launch("kernel", {}, results=metric) for metric in results])
    data = ncu_bytes.report(TABLE, blocks)
    path = tmp_path_factory.mktemp("made") / "made.ncu-rep"
    path.write_bytes(data)
    own, actions = messages_of(data), actions_of.__wrapped__(str(path))
    assert len(actions) == len(launches)
    for at, action in enumerate(actions):
        compared(own, at, action)
