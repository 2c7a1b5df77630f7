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
from gpuprof.model.session import DurationSpread, KernelProfile, RooflinePoint, Session
from gpuprof.model.time_by import TimeBy, TimeGroup, time_by
from gpuprof.model.trace import KERNEL
from gpuprof.notebook import LoadedSession
from gpuprof.present.console_parts import Sheet
from gpuprof.present.time_by_out import csv_lines, json_lines, markdown_lines
from gpuprof.present.time_by_text import header_text, note_texts, table_lines
from gpuprof.store.write import session_bytes
from tests.cli import gpuprof as run
from tests.cli import process
from tests.hand_made import HOSTILE, kernel, session
from tests.readings import trace_of
from tests.real_sessions import loaded
from tests.table import each_row

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


# What belongs together


def test_an_operator_is_the_innermost_without_its_shapes() -> None:
    assert milliseconds("operator") == {
        "aten::addmm": 3.5, "aten::mm": 2.5, "aten::_fused_adamw_": 1.5, "(no operator)": 0.5,
    }  # fmt: skip
    assert list(groups("operator")) == ["aten::addmm", "aten::mm", "aten::_fused_adamw_", "(no operator)"]
    addmm = groups("operator")["aten::addmm"]
    assert (addmm.kernels, addmm.launches, addmm.untimed_launches) == (3, 8, 4)
    assert addmm.time_share == pytest.approx(3.5 / 8)


def test_a_kernel_without_an_operator_but_in_an_autograd_node_is_of_that_node() -> None:
    node = launched(8, "scan_bwd", 1e-3, f"{MLP} (backward)", "SelectiveScanBackward")
    assert milliseconds("operator", session(*TRAINING.kernels, node))["SelectiveScanBackward"] == 1


def test_a_module_is_the_innermost_with_its_gradients_apart_and_no_step_of_an_optimizer() -> None:
    assert milliseconds("module") == {
        MLP: 3, f"{MLP} (backward)": 2.5, "(no module)": 1.75, "layers.1.mlp": 0.5, "layers.0.attn": 0.25,
    }  # fmt: skip


def test_a_range_is_the_whole_path_without_operators_and_gradients() -> None:
    assert milliseconds("range") == {
        f"GPT / {MLP}": 3, f"{MLP} (backward)": 2.5, "Optimizer.step#AdamW.step": 1.5, "GPT / layers.1.mlp": 0.5,
        "GPT / layers.0.attn": 0.25, "(no range)": 0.25,
    }  # fmt: skip


def test_a_kernel_is_named_without_what_launched_it_and_its_launch_configurations_are_together() -> None:
    assert milliseconds("kernel") == {
        "gemm": 3, "gemm_tn": 2.5, "adam": 1.5, "splitk": 0.5, "rotary": 0.25, "warm_up": 0.25, "late": None,
    }  # fmt: skip
    assert groups("kernel")["gemm"].kernels == 1 and groups("kernel")["gemm"].launches == 3


def test_the_longest_kernel_of_a_group_is_that_of_all_its_launch_configurations() -> None:
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
    with pytest.raises(UsageError, match="by a PyTorch operator"):
        time_by(solver, solver.kernels, "operator")
    with pytest.raises(UsageError, match="in a PyTorch module"):
        time_by(solver, solver.kernels, "module")


def test_a_trace_names_functions_and_compiled_kernels_as_operators() -> None:
    kinds = [
        launched(0, "flash_fwd", 1e-3, "forward", "FlashAttnFunc [2, 8]"),
        launched(1, "k", 1e-3, "x", "aten::add"),
    ]
    made = session(*kinds)
    trace = replace(made, sources=(replace(made.sources[0], kind="torch-trace"),))
    assert milliseconds("operator", trace) == {"FlashAttnFunc": 1, "aten::add": 1}
    assert milliseconds("range", trace) == {"forward": 1, "x": 1}
    compiled = session(
        launched(0, "triton_poi_fused_0", 1e-3, "GPT", "Torch-Compiled Region: 0/0", "triton_poi_fused_0"), kinds[1]
    )
    assert milliseconds("operator", compiled) == {"aten::add": 1, "triton_poi_fused_0": 1}
    assert milliseconds("module", compiled) == {"GPT": 1, "x": 1}


def test_modules_that_a_trace_names_are_modules_and_no_operators() -> None:
    made = session(
        launched(0, "gemm", 1e-3, "nn.Module: GPT_0", "nn.Module: Block_3", "aten::mm [4, 16]×[16, 8]"),
        launched(1, "rms_norm", 2e-3, "nn.Module: GPT_0", "nn.Module: Block_3", "fused"),
        launched(2, "rms_norm", 4e-3, "nn.Module: GPT_0"),
        launched(3, "gemm_grad", 8e-3, "aten::mm"),
    )
    trace = replace(made, sources=(replace(made.sources[0], kind="torch-trace"),))
    assert milliseconds("module", trace) == {"Block_3": 3, "GPT_0": 4, "(no module)": 8}
    assert milliseconds("operator", trace) == {"aten::mm": 9, "fused": 2, "(no operator)": 4}
    # A range of the program's own within a module is none.
    within = session(launched(0, "k", 1e-3, "nn.Module: Block_3", "attention", "aten::mm"))
    assert milliseconds("module", replace(within, sources=trace.sources)) == {"Block_3": 1}


def test_a_function_with_shapes_is_an_operator_and_numbers_are_modules_of_a_sequential() -> None:
    own = session(
        launched(0, "flash_fwd", 1e-3, "GPT", "FlashAttnFunc [2, 8]"),
        launched(1, "gemm", 2e-3, "Sequential", "0", "aten::linear", "aten::addmm"),
    )
    assert milliseconds("operator", own) == {"aten::addmm": 2, "FlashAttnFunc": 1}
    assert milliseconds("module", own) == {"0": 2, "GPT": 1}


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


# Sums


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


@given(kernels(), st.sampled_from(GROUPINGS), st.integers(60, 200), st.integers(0, 3), st.booleans())
def test_no_line_is_wider_than_the_terminal_and_the_rest_is_one_row(
    made: tuple[KernelProfile, ...], by: str, width: int, top: int, blocks: bool
) -> None:
    try:
        times = time_by(session(*made), made, by)
    except UsageError:
        return
    lines = table_lines(Sheet(width, "utf-8" if blocks else "ascii"), times, top)
    assert max(map(len, lines)) <= width
    assert blocks or all(line.isascii() for line in lines)
    hidden = len(times.groups) - top if top and len(times.groups) > top else 0
    assert len(lines) == 1 + len(times.groups) - hidden + bool(hidden)
    assert not hidden or f"and {hidden} more" in lines[-1]


@each_row(
    ("name", "by"),
    [
        *(("rank0-v100.pt.trace.json.gz", by) for by in GROUPINGS),
        *(("resnet50-v100.pt.trace.json.gz", by) for by in ("operator", "range", "kernel")),
        *(("alexnet-a100.pt.trace.json.gz", by) for by in ("operator", "range", "kernel")),
        ("miniweather-gp100.nsys.sqlite", "kernel"),
    ],
)
def test_groups_of_a_real_trace_add_up_to_its_kernels(reports: Path, name: str, by: str) -> None:
    whole = loaded(reports / "traces" / name)
    times = time_by(whole, whole.kernels, by)
    assert times.time_s == pytest.approx(sum(own.time_total_s or 0 for own in whole.kernels), rel=1e-12)
    assert times.launches == sum(own.launches for own in whole.kernels)
    assert sum(group.time_share or 0 for group in times.groups) == pytest.approx(1)
    assert times.untimed_launches == (636 if name.startswith("resnet") else 0)


def test_operators_of_a_real_trace_take_what_its_events_take(reports: Path) -> None:
    name = reports / "traces" / "rank0-v100.pt.trace.json.gz"
    by_operator: dict[str, float] = defaultdict(float)
    for activity in trace_of(name).activities:
        if activity.kind == KERNEL:
            by_operator[(activity.operator or "").partition(" [")[0]] += activity.duration_s or 0
    times = groups("operator", loaded(name))
    assert {name: group.time_s for name, group in times.items()} == pytest.approx(by_operator)
    assert times["aten::convolution_backward"].launches == 1330


def test_a_report_with_nvtx_ranges_is_told_by_them(reports: Path) -> None:
    whole = loaded(reports / "cutlass-384.ncu-rep")
    times = groups("range", whole)
    assert [(name, group.launches) for name, group in times.items()] == [("Fused-GEMM", 1), ("Non-fused-GEMM", 2)]
    fractions = {"Fused-GEMM": 0.15, "Non-fused-GEMM": 0.18}
    assert {name: group.fraction_of_roof for name, group in times.items()} == pytest.approx(fractions, abs=0.005)


# What is said


def of(by: str, **changes: object) -> TimeBy:
    made = replace(TRAINING, **changes)
    return time_by(made, made.kernels, by)


def test_the_header_counts_what_has_a_name_and_says_what_part_is_shown() -> None:
    assert header_text(of("operator")) == "Time by operator: 3 operators, 8.00 ms in 14 launches"
    part = time_by(TRAINING, TRAINING.kernels[:2], "module")
    assert header_text(part) == "Time by module: 1 module, 3.00 ms in 3 launches, 38 % of all kernel time"
    assert list(note_texts(of("operator"))) == ["4 launches without a duration: no part of the times"]
    timeless = session(launched(0, "late", None))
    times = time_by(timeless, timeless.kernels, "kernel")
    assert header_text(times) == "Time by kernel: 1 kernel, 1 launch, no durations"
    assert (times.time_s, times.run_time_s, times.groups[0].time_share) == (None, None, None)


def test_the_table_at_80_columns() -> None:
    assert table_lines(Sheet(80), of("module"), 2) == [
        "module                   launches     time  share            longest kernel",
        "layers.0.mlp                    7  3.00 ms   38 %  ███       gemm",
        "layers.0.mlp (backward)         3  2.50 ms   31 %  ██▌       gemm_tn",
        "… and 3 more                    4  2.50 ms   31 %",
    ]


def test_what_a_short_table_leaves_out_can_be_asked_for(saved: Path) -> None:
    short = run("show", "--by", "module", "--top", "2", saved).stdout
    assert "\n… and 3 more " in short and short.endswith("\n--top 0 shows all\n")
    assert "--top" not in run("show", "--by", "module", "--top", "0", saved).stdout


def test_long_names_leave_out_the_longest_kernel_first_and_then_lose_their_middle() -> None:
    name = "encoder.layers.0.attention.self.query_key_value_projection.linear"
    long = session(launched(0, "a_kernel_with_a_long_name_of_its_own", 1e-3, name, "aten::mm"))
    times = time_by(long, long.kernels, "module")
    head, line = table_lines(Sheet(80), times, 0)
    assert "longest kernel" not in head
    assert line.startswith("encoder.") and "…" in line and "linear " in line
    wide = table_lines(
        Sheet(200),
        time_by(short := session(launched(0, "a_kernel_of_its_own", 1e-3, name, "aten::mm")), short.kernels, "module"),
        0,
    )[1]
    assert name in wide and "a_kernel_of_its_own" in wide


@each_row(
    ("by", "kind", "ranges", "message", "hint"),
    [
        (
            "operator",
            "ncu-rep",
            ("load",),
            "by a PyTorch operator",
            "gpuprof run -- python SCRIPT records the operators",
        ),
        ("module", "ncu-rep", ("load",), "in a PyTorch module", "--by range or --by kernel"),
        ("range", "ncu-rep", (), "in a range", "gpuprof.annotate(NAME); this run can be shown --by kernel"),
        ("range", "torch-trace", ("aten::mm",), "in a range", "torch.profiler.record_function(NAME)"),
        ("operator", "torch-trace", (), "by a PyTorch operator", "ProfilerActivity.CPU"),
        ("module", "torch-trace", ("aten::mm",), "in a PyTorch module", "and with_stack=True; this run can be shown"),
    ],
)
def test_where_nothing_has_what_is_asked_for_an_error_says_what_would_record_it(
    by: str, kind: str, ranges: tuple[str, ...], message: str, hint: str
) -> None:
    made = session(launched(0, "k", 1e-3, *ranges))
    bare = replace(made, sources=(replace(made.sources[0], kind=kind),))
    with pytest.raises(UsageError) as raised:
        time_by(bare, bare.kernels, by)
    assert message in raised.value.message and hint in (raised.value.hint or "")


# Formats and the command line


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The session of the training as a file."""
    path = tmp_path / "session.json"
    path.write_bytes(session_bytes(TRAINING))
    return path


def test_json_has_all_groups_with_their_longest_kernel(saved: Path) -> None:
    done = run("show", "--by", "module", "--top", "1", "--format", "json", saved)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert {name: document[name] for name in ("schema_version", "by", "launches", "untimed_launches")} == {
        "schema_version": 2, "by": "module", "launches": 14, "untimed_launches": 4,
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
    with pytest.raises(UsageError, match="there is no time by 'layer'"):
        LoadedSession.of(TRAINING).time_by("layer")


def test_markdown_is_a_table_of_the_first_and_the_rest(saved: Path) -> None:
    lines = run("show", "--by", "operator", "--format", "md", "--top", "1", saved).stdout.splitlines()
    assert lines[0] == "**Time by operator: 3 operators, 8.00 ms in 14 launches**"
    assert lines[2] == "| operator | kernels | launches | time | share | longest kernel |"
    assert lines[4] == "| aten::addmm | 3 | 8 | 3.50 ms | 44 % | gemm |"
    assert lines[5] == "| … and 3 more |  | 6 | 4.50 ms | 56 % |  |"


@each_row("form", ["table", "json", "csv", "md"])
def test_hostile_names_are_harmless_in_every_format(form: str, tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    evil = launched(0, "k", 1e-3, HOSTILE, "日本語の範囲" * 20)
    path.write_bytes(session_bytes(session(replace(evil, demangled=HOSTILE, name=HOSTILE, label=HOSTILE))))
    for by in ("range", "kernel"):
        done = run("show", "--by", by, "--format", form, path)
        assert done.returncode == 0, done.stderr
        assert not re.search("[\x1b\u202e]", done.stdout + done.stderr)


def test_the_command_line_says_what_is_next_and_picks_kernels(saved: Path) -> None:
    done = run("show", "--by", "operator", "--kernel", "gemm", saved)
    assert done.stdout.startswith("Time by operator: 2 operators, 5.50 ms in 6 launches, 69 % of all kernel time")
    assert done.stderr.startswith("next: gpuprof show ") and done.stderr.endswith(" --kernel '#1'\n")
    by_number = run("show", "--by", "kernel", "--kernel", "#4", saved)
    assert "adam" in by_number.stdout and "gemm" not in by_number.stdout


@each_row("option", [("--explain", "gemm"), ("--sort", "launch"), ("--items-per-step", "3")])
def test_options_that_say_nothing_of_groups_are_refused(saved: Path, option: tuple[str, str]) -> None:
    done = run("show", "--by", "operator", *option, saved)
    assert done.returncode == 2
    assert done.stderr == f"error: --by and {option[0]} cannot be combined\nhint: leave out --by or {option[0]}\n"


def test_a_run_without_modules_ends_with_what_would_record_them(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(session_bytes(session(launched(0, "k", 1e-3))))
    done = run("show", "--by", "module", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no kernel was launched in a PyTorch module\nhint: gpuprof run -- python ")


@each_row("width", [60, 80, 100, 140, 200])
def test_the_terminal_is_wide_enough_for_real_names(reports: Path, width: int) -> None:
    trace = reports / "traces" / "alexnet-a100.pt.trace.json.gz"
    for by in ("operator", "range", "kernel"):
        done = run("show", "--by", by, trace, environ={"COLUMNS": str(width)})
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and len(lines) > 4
        assert max(map(len, lines)) <= width


def test_a_terminal_without_unicode_gets_ascii(saved: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "COLUMNS": "80", "HOME": "/"}
    done = process("show", "--by", "module", "--top", "2", saved, environ=plain)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and "###" in done.stdout and "... and 3 more" in done.stdout


def test_lines_of_all_writers_come_from_one_reading() -> None:
    times = of("range")
    assert len(list(csv_lines(TRAINING, times))) == len(times.groups) + 1
    assert len(json.loads("\n".join(json_lines(TRAINING, times)))["groups"]) == len(times.groups)
    assert sum(line.startswith("|") for line in markdown_lines(TRAINING, times, 0)) == len(times.groups) + 2
