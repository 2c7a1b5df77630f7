"""Time by operator, module, range or kernel: numbers worked out by hand, sums of real traces, every format."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import gpuprof
from gpuprof.errors import UsageError
from gpuprof.model.groupings import GROUPINGS
from gpuprof.model.labels import launch_labels
from gpuprof.model.session import DurationSpread, KernelProfile, RooflinePoint, Session
from gpuprof.model.time_by import TimeGroup, time_by
from gpuprof.notebook import LoadedSession
from gpuprof.store.write import session_bytes
from gpuprof.timeline.trace import KERNEL
from gpuprof.timeline.window import judged_part
from tests.cli import gpuprof as run
from tests.hand_made import HOSTILE, kernel, session
from tests.readings import session_of, trace_of
from tests.table import each_row

RECORDED = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/survey.pt.trace.json.gz"
MLP = "layers.0.mlp"
BACKWARD = ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0")


def launched(
    number: int, name: str, time_s: float | None, *ranges: str, launches: int = 1, **changes: object
) -> KernelProfile:
    """A kernel of a run of 8 ms."""
    return kernel(
        number, name=name, demangled=f"{name}(float *)", label=name, ranges=ranges, launches=launches,
        duration_s=time_s, time_total_s=time_s, time_share=time_s / 8e-3 if time_s is not None else None, **changes,
    )  # fmt: skip


TRAINING = session(
    launched(0, "gemm", 1e-3, "GPT", MLP, "aten::linear [8, 4]×[4, 4]", "aten::addmm [8, 4]×[4, 4]", launches=2),
    launched(1, "gemm", 2e-3, "GPT", MLP, "aten::linear [16, 4]×[4, 4]", "aten::addmm [16, 4]×[4, 4]"),
    launched(2, "splitk", 0.5e-3, "GPT", "layers.1.mlp", "aten::linear [8, 4]×[4, 4]", "aten::addmm [8, 4]×[4, 4]"),
    launched(3, "gemm_tn", 2.5e-3, f"{MLP} (backward)", *BACKWARD, "aten::mm [4, 8]×[8, 4]", launches=3),
    launched(4, "adam", 1.5e-3, "Optimizer.step#AdamW.step", "aten::_fused_adamw_"),
    launched(5, "rotary", 0.25e-3, "GPT", "layers.0.attn"),
    launched(6, "warm_up", 0.25e-3),
    launched(7, "late", None, "GPT", MLP, "aten::addmm [8, 4]×[4, 4]", launches=4),
)
"""What `gpuprof run` records of a PyTorch program: two layers, their gradients, an optimizer, kernels of its own."""


def groups(by: str, of: Session = TRAINING) -> dict[str, TimeGroup]:
    return {group.name: group for group in time_by(of, of.kernels, by).groups}


def milliseconds(by: str, of: Session = TRAINING) -> dict[str, float | None]:
    return {
        name: round(group.time_s * 1e3, 9) if group.time_s is not None else None
        for name, group in groups(by, of).items()
    }


def test_kernels_are_grouped_by_operator_module_range_and_name() -> None:
    # An operator is the innermost without its shapes; each kernel without one is a group.
    assert milliseconds("operator") == {
        "aten::addmm": 3.5, "aten::mm": 2.5, "aten::_fused_adamw_": 1.5, "rotary": 0.25, "warm_up": 0.25,
    }  # fmt: skip
    assert [group.kind for group in groups("operator").values()] == [*["operator"] * 3, "kernel", "kernel"]
    addmm = groups("operator")["aten::addmm"]
    assert (addmm.kernels, addmm.launches, addmm.untimed_launches) == (3, 8, 4)
    assert addmm.time_share == pytest.approx(3.5 / 8)
    # A kernel without an operator but in an autograd node is of that node.
    node = launched(8, "scan_bwd", 1e-3, f"{MLP} (backward)", "SelectiveScanBackward")
    assert milliseconds("operator", session(*TRAINING.kernels, node))["SelectiveScanBackward"] == 1
    # A module is the innermost, with its gradients apart, and no step of an optimizer.
    assert milliseconds("module") == {
        MLP: 3, f"{MLP} (backward)": 2.5, "(no module)": 1.75, "layers.1.mlp": 0.5, "layers.0.attn": 0.25,
    }  # fmt: skip
    # A range is the whole path without operators and gradients.
    assert milliseconds("range") == {
        f"GPT / {MLP}": 3, f"{MLP} (backward)": 2.5, "Optimizer.step#AdamW.step": 1.5, "GPT / layers.1.mlp": 0.5,
        "GPT / layers.0.attn": 0.25, "(no range)": 0.25,
    }  # fmt: skip
    # Launch configurations of one kernel are together.
    assert milliseconds("kernel") == {
        "gemm": 3, "gemm_tn": 2.5, "adam": 1.5, "splitk": 0.5, "rotary": 0.25, "warm_up": 0.25, "late": None,
    }  # fmt: skip
    assert groups("kernel")["gemm"].kernels == 1 and groups("kernel")["gemm"].launches == 3
    several = session(
        launched(0, "wide", 2e-3, "aten::add"),
        launched(1, "many", 1.5e-3, "aten::add", launches=2),
        launched(2, "many", 1e-3, "aten::add"),
    )
    longest = groups("operator", several)["aten::add"].longest
    assert longest is not None
    assert (longest.id, longest.label, longest.launches) == (1, "many", 3)
    assert longest.time_s == pytest.approx(2.5e-3)


def test_ranges_of_a_program_without_torch_are_ranges_even_if_they_look_like_operators() -> None:
    solver = session(launched(0, "jacobi", 1e-3, "main", "Solver::step"), launched(1, "copy", 1e-3, "main", "main"))
    assert milliseconds("range", solver) == {"main / Solver::step": 1, "main": 1}
    for by, kind, ranges, hint in (
        ("operator", "ncu-rep", ("main", "Solver::step"), "gpuprof run -- python SCRIPT"),
        ("module", "ncu-rep", ("load",), "--by range"),
        ("range", "ncu-rep", (), "gpuprof.annotate(NAME)"),
        ("range", "torch-trace", ("aten::mm",), "torch.profiler.record_function(NAME)"),
        ("operator", "torch-trace", (), "ProfilerActivity.CPU"),
        ("module", "torch-trace", ("aten::mm",), "with_stack=True"),
    ):
        bare = of_kind(kind, session(launched(0, "k", 1e-3, *ranges)))
        with pytest.raises(UsageError) as raised:
            time_by(bare, bare.kernels, by)
        assert hint in (raised.value.hint or "")


def of_kind(kind: str, made: Session) -> Session:
    return replace(made, sources=(replace(made.sources[0], kind=kind),))


def test_a_trace_names_functions_and_compiled_kernels_as_operators() -> None:
    flash = launched(0, "flash_fwd", 1e-3, "forward", "FlashAttnFunc [2, 8]")
    plain = launched(1, "k", 1e-3, "x", "aten::add")
    trace = of_kind("torch-trace", session(flash, plain))
    assert milliseconds("operator", trace) == {"FlashAttnFunc": 1, "aten::add": 1}
    assert milliseconds("range", trace) == {"forward": 1, "x": 1}
    name = "triton_poi_fused_0"
    compiled = session(launched(0, name, 1e-3, "GPT", "Torch-Compiled Region: 0/0", name), plain)
    assert milliseconds("operator", compiled) == {"aten::add": 1, name: 1}
    assert milliseconds("module", compiled) == {"GPT": 1, "x": 1}
    # A function with shapes is an operator, and numbers are modules of a Sequential.
    own = session(flash, launched(1, "gemm", 2e-3, "Sequential", "0", "aten::linear", "aten::addmm"))
    assert milliseconds("operator", own) == {"aten::addmm": 2, "FlashAttnFunc": 1}
    assert milliseconds("module", own) == {"0": 2, "forward": 1}


def test_compiled_kernels_are_operators_by_the_names_of_their_functions() -> None:
    names = ["triton_poi_fused_add_3", "triton_poi_fused_add_12", "triton_poi_fused_add_mul_4", "triton_red_fused_5"]
    # What fuses the same operators is one. A number that distinguishes nothing stays, as in the table of kernels.
    times = {"triton_poi_fused_add": 2, "triton_poi_fused_add_mul_4": 1, "triton_red_fused_5": 1}
    for suffix in ("", "_0d1d2de3"):
        kernels = [name + suffix for name in names]
        labels = launch_labels(kernels, [()] * len(kernels))
        fused = [
            replace(launched(number, name, 1e-3, "GPT", name), demangled=own, label=label, function=function)
            for number, (name, own, (label, function)) in enumerate(zip(names, kernels, labels, strict=True))
        ]
        made = of_kind("torch-trace", session(*fused))
        assert milliseconds("operator", made) == milliseconds("kernel", made) == times


def test_modules_that_a_trace_names_are_modules_and_no_operators() -> None:
    made = session(
        launched(0, "gemm", 1e-3, "nn.Module: GPT_0", "nn.Module: Block_3", "aten::mm [4, 16]×[16, 8]"),
        launched(1, "rms_norm", 2e-3, "nn.Module: GPT_0", "nn.Module: Block_3", "fused"),
        launched(2, "rms_norm", 4e-3, "nn.Module: GPT_0"),
        launched(3, "gemm_grad", 8e-3, "aten::mm"),
    )
    trace = of_kind("torch-trace", made)
    assert milliseconds("module", trace) == {"Block_3": 3, "GPT_0": 4, "(no module)": 8}
    assert milliseconds("operator", trace) == {"aten::mm": 9, "fused": 2, "rms_norm": 4}
    # A range of the program's own within a module is none.
    within = session(launched(0, "k", 1e-3, "nn.Module: Block_3", "attention", "aten::mm"))
    assert milliseconds("module", of_kind("torch-trace", within)) == {"Block_3": 1}


def point(fraction: float) -> RooflinePoint:
    return RooflinePoint(
        path="fp32", level="dram", intensity=1.0, flop_per_s=fraction * 1e12, roof_flop_per_s=1e12,
        fraction_of_roof=fraction, ceiling="at-clock", bound="memory",
    )  # fmt: skip


def test_the_fraction_of_the_roofline_is_weighted_by_time_and_missing_where_part_of_the_time_has_none() -> None:
    counted = session(
        launched(0, "a", 3e-3, "load", roofline=(point(0.8),)),
        launched(1, "b", 1e-3, "load", roofline=(point(0.4),)),
        launched(2, "c", 1e-3, "solve", roofline=(point(0.4),)),
        launched(3, "d", 1e-3, "solve"),
    )
    # 3 ms at 80 % and 1 ms at 40 % would take 2.4 + 0.4 of 4 ms.
    assert groups("range", counted)["load"].fraction_of_roof == pytest.approx(0.7)
    assert groups("range", counted)["solve"].fraction_of_roof is None


RANGES = st.lists(
    st.sampled_from([
        "GPT", MLP, f"{MLP} (backward)", "aten::mm [4, 8]×[8, 4]", "aten::add", *BACKWARD, "## forward ##", "step 1",
    ]),
    max_size=4,
).map(tuple)  # fmt: skip


@st.composite
def kernels(draw: st.DrawFn) -> tuple[KernelProfile, ...]:
    """Kernels whose times are multiples of 2⁻²⁰ s, so that sums are exact; of some launches or all none is known."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        launches = draw(st.integers(1, 5))
        timed = draw(st.integers(0, launches))
        time_s = draw(st.integers(1, 1000)) * 2.0**-20 if timed else None
        spread = DurationSpread(min=1.0, p50=1.0, p95=1.0, p99=1.0, max=1.0, count=timed) if timed else None
        own = launched(
            number,
            draw(st.sampled_from("abc")),
            time_s,
            *draw(RANGES),
            launches=launches,
            duration_percentiles_s=spread,
        )
        made.append(own)
    return tuple(made)


@given(kernels(), st.sampled_from(GROUPINGS))
def test_groups_are_all_kernels_and_each_once(made: tuple[KernelProfile, ...], by: str) -> None:
    whole = session(*made)
    try:
        times = time_by(whole, made, by)
    except UsageError as error:
        assert error.hint and by != "kernel"
        return
    known = [own.time_total_s for own in made if own.time_total_s is not None]
    assert times.time_s == (sum(known) if known else None)
    assert times.launches == sum(own.launches for own in made) == sum(group.launches for group in times.groups)
    counts = [own.duration_percentiles_s.count for own in made if own.duration_percentiles_s is not None]
    assert times.untimed_launches == times.launches - sum(counts)
    assert len({group.name for group in times.groups}) == len(times.groups)
    if known:
        assert sum(group.time_share or 0 for group in times.groups) == pytest.approx(1)
    for group in times.groups:
        assert (group.longest is None) == (group.time_s is None) == (group.untimed_launches == group.launches)
        assert group.longest is None or group.longest.time_s <= (group.time_s or 0)
    order = [group.time_s if group.time_s is not None else -1.0 for group in times.groups]
    assert order == sorted(order, reverse=True)


def test_groups_of_a_recorded_trace_add_up_to_its_kernels() -> None:
    whole = session_of(RECORDED)
    by_operator: dict[str, float] = defaultdict(float)
    recorded = trace_of(RECORDED)
    judged = judged_part(recorded, recorded.activities)
    for activity in recorded.activities:
        if activity.kind == KERNEL and judged.has(activity):
            by_operator[(activity.operator or "").partition(" [")[0]] += activity.duration_s or 0
    for by, count in (("operator", 28), ("module", 33), ("range", 34), ("kernel", 40)):
        times = time_by(whole, whole.kernels, by)
        assert (len(times.groups), times.launches, times.untimed_launches) == (count, 441, 0)
        assert times.time_s == pytest.approx(sum(by_operator.values()), rel=1e-9)
        assert sum(group.time_share or 0 for group in times.groups) == pytest.approx(1)
    found = groups("operator", whole)
    assert {name: group.time_s for name, group in found.items()} == pytest.approx(by_operator)
    assert (found["aten::mm"].launches, found["aten::addmm"].launches) == (99, 21)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "session.json"
    path.write_bytes(session_bytes(TRAINING))
    return path


def test_json_has_all_groups_with_their_longest_kernel(saved: Path) -> None:
    done = run("show", "--by", "module", "--top", "1", "--format", "json", saved)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert {name: document[name] for name in ("schema_version", "by", "launches", "untimed_launches")} == {
        "schema_version": 3, "by": "module", "launches": 14, "untimed_launches": 4,
    }  # fmt: skip
    assert document["time_s"] == document["run_time_s"] == pytest.approx(8e-3)
    first, *others = document["groups"]
    assert len(others) == 4
    assert first["longest"] == {
        "id": 1, "label": "gemm", "demangled": "gemm(float *)", "launches": 3, "time_s": pytest.approx(3e-3),
    }  # fmt: skip
    assert (first["name"], first["time_share"], first["fraction_of_roof"]) == (MLP, pytest.approx(3 / 8), None)


def test_csv_and_the_dataframe_have_the_same_rows(saved: Path) -> None:
    table = list(csv.DictReader(io.StringIO(run("show", "--by", "operator", "--format", "csv", saved).stdout)))
    frame = gpuprof.load(saved).time_by("operator")
    assert list(frame.columns) == list(table[0])
    assert list(frame["name"]) == [row["name"] for row in table] == list(groups("operator"))
    assert [float(row["time_s"]) for row in table] == list(frame["time_s"])
    assert table[0]["longest_label"] == "gemm" and table[0]["fraction_of_roof"] == ""
    with pytest.raises(UsageError, match="'layer'"):
        LoadedSession.of(TRAINING).time_by("layer")
    lines = run("show", "--by", "operator", "--format", "md", "--top", "1", saved).stdout.splitlines()
    assert lines[4] == "| aten::addmm | 8 | 3.50 ms | 44 % | gemm, 86 % |"
    assert "4 more, 4.50 ms, 56 %" in lines[6]


@each_row("form", ["table", "json", "csv", "md"])
def test_hostile_names_are_harmless_in_every_format(form: str, tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    evil = launched(0, "k", 1e-3, HOSTILE, "日本語の範囲" * 20)
    path.write_bytes(session_bytes(session(replace(evil, demangled=HOSTILE, name=HOSTILE, label=HOSTILE))))
    for by in ("range", "kernel"):
        done = run("show", "--by", by, "--format", form, path)
        assert done.returncode == 0, done.stderr
        assert not re.search("[\x1b\u202e]", done.stdout + done.stderr)
