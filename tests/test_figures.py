"""Figure data on small sessions whose numbers can be worked out on paper. The builder serves the drawing tests too."""

from __future__ import annotations

import json

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuprof.hardware.specs import LEVELS, Basis, Level
from gpuprof.hardware.trust import Trust
from gpuprof.model.field_types import CeilingOrigin, RooflineBound
from gpuprof.model.recorded import Missing
from gpuprof.model.session import (
    Ceiling,
    Device,
    Finding,
    KernelProfile,
    Occupancy,
    Pipe,
    RooflinePoint,
    Session,
    Source,
    Stall,
    Throughput,
    Traffic,
    Work,
)
from gpuprof.store.write import encoded
from gpuprof.views.plot import draw_plot
from gpuprof.views.roofline import device_figures, kernel_figures, overview_figures, plots_of
from gpuprof.views.roofline_data import hierarchical, overview
from gpuprof.views.roofline_values import Roofline
from tests.table import each_row
from tests.worded import summarised

PEAKS = {"fp64": 5e12, "fp32": 1e13, "int32": 5e12, "tensor.fp16": 1e14}
BANDWIDTHS = {"l1": 1e13, "l2": 4e12, "dram": 1e12}
RATED = {"fp32": 1.25e13, "tensor.fp16": 1.25e14, "dram": 1.1e12}
CLOCK = 1e9
LEVEL_OF: dict[str, Level] = {level: level for level in LEVELS}
HOSTILE = "</script><img src=x onerror=alert(1)> $\\frac{a}{b}$ \x1b[31m\u202e & \"quoted' #fa007e"


def kernel(
    number: int,
    work: dict[str, float] | None = None,
    traffic: dict[str, float] | None = None,
    *,
    duration_s: float | None = 1e-3,
    label: str | None = None,
    clock_hz: float = CLOCK,
    basis: Basis = "counted",
    certificate: Trust | None = "checked",
    **changes: object,
) -> KernelProfile:
    """Return a kernel with its points under the peaks above, scaled to its clock (DRAM excepted)."""
    work, traffic = work or {}, traffic or {}
    name = label or f"kernel_{number}"
    profile = KernelProfile(
        id=number, source=0, device=0, rank=None, process=1, stream=7, name=name, demangled=f"void {name}(float*)",
        label=name, ranges=(), grid=(108, 1, 1), block=(256, 1, 1), registers_per_thread=32,
        shared_memory_per_block=49152, launches=1, duration_s=duration_s, duration_percentiles_s=None,
        duration_source="counters", time_total_s=duration_s, time_share=None, sm_clock_hz=clock_hz, throttled=None,
        work=tuple(
            Work(path, flop, flop / duration_s if duration_s else None, basis=basis, certificate=certificate)
            for path, flop in work.items()
        ),
        traffic=tuple(
            Traffic(
                LEVEL_OF[level], moved, moved / duration_s if duration_s else None, definition=f"{level}__bytes",
                basis="counted",
            )
            for level, moved in traffic.items()
        ),
        roofline=tuple(_points(work, traffic, duration_s, clock_hz / CLOCK)) if duration_s else (),
        throughput=(Throughput("sm", 0.25), Throughput("dram", 0.5)),
        occupancy=Occupancy(0.5, 0.4, ("registers",)),
        stalls=(Stall("long_scoreboard", 0.6, 6.0, family="counter"), Stall("selected", 0.4, 4.0, family="counter")),
        findings=(), missing=(),
    )  # fmt: skip
    return replace(profile, **changes)


def _points(work: dict[str, float], traffic: dict[str, float], duration_s: float, scale: float) -> list[RooflinePoint]:
    points = []
    for path, flop in work.items():
        for level, moved in traffic.items():
            limits: list[tuple[CeilingOrigin, float, float]] = [
                ("at-clock", PEAKS[path] * scale, BANDWIDTHS[level] * (1.0 if level == "dram" else scale))
            ]
            if path in RATED and level in RATED:
                limits.append(("rated", RATED[path], RATED[level]))
            for origin, peak, bandwidth in limits:
                if flop and moved:
                    roof = min(peak, bandwidth * flop / moved)
                    side: RooflineBound = "memory" if flop / moved < peak / bandwidth else "compute"
                    rate = flop / duration_s
                    points.append(
                        RooflinePoint(
                            path=path,
                            level=LEVEL_OF[level],
                            intensity=flop / moved,
                            flop_per_s=rate,
                            roof_flop_per_s=roof,
                            fraction_of_roof=rate / roof,
                            ceiling=origin,
                            bound=side,
                        )
                    )
    return points


def session(*kernels: KernelProfile, measured: dict[str, float] | None = None) -> Session:
    """Return a session of these kernels on one GPU with the peaks above."""
    total = sum(item.time_total_s or 0.0 for item in kernels)
    shared = tuple(
        replace(item, time_share=item.time_total_s / total if item.time_total_s and total else None) for item in kernels
    )
    limits: list[tuple[CeilingOrigin, dict[str, float]]] = [
        ("at-clock", PEAKS | BANDWIDTHS),
        ("rated", RATED),
        ("measured", measured or {}),
    ]
    made = Session(
        schema_version=3,
        gpuprof_version="0.1.0",
        sources=(
            Source(
                file="/home/someone/secret/run.ncu-rep", sha256="ab" * 32, kind="ncu-rep", tool="ncu",
                tool_version="2024.1.1.0", clock_control="base", cache_control="all",
                command="/home/someone/bin/ncu --set full ./app", driver="550.54", created_s=1700000000,
            ),
        ),
        devices=(Device(id=0, name="NVIDIA Test GPU", compute_capability="8.0", sm_count=108, spec="test-gpu"),),
        ceilings=tuple(
            Ceiling(
                device=0, id=f"{origin}/{target}",
                path=None if target in BANDWIDTHS else target, level=LEVEL_OF.get(target),
                value=value, clock_hz=CLOCK if origin == "at-clock" else None, origin=origin, source="by hand",
            )
            for origin, targets in limits
            for target, value in targets.items()
        ),
        kernels=shared,
    )  # fmt: skip
    return summarised(made)


TWO = session(
    kernel(0, {"fp32": 1e9}, {"l1": 1.6e9, "l2": 8e8, "dram": 4e8}, duration_s=1e-3),
    kernel(1, {"fp32": 3e10, "int32": 1e9}, {"dram": 1e9}, duration_s=4e-3),
)


def digits(figure: Roofline) -> object:
    """Return a figure as JSON values with six significant digits, as goldens hold it."""

    def rounded(value: object) -> object:
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, list):
            return [rounded(item) for item in value]
        if isinstance(value, dict):
            return {name: rounded(item) for name, item in value.items()}
        return value

    return rounded(json.loads(encoded(figure)))


def test_roofs_meet_at_the_ridge() -> None:
    figure = overview(TWO)
    roofs = {roof.id: roof for roof in figure.roofs}
    assert roofs["at-clock/dram"].line[1] == (10.0, 1e13)
    assert roofs["at-clock/fp32"].line[0] == (10.0, 1e13)
    ridges = [(ridge.origin, round(ridge.intensity, 4), ridge.flop_per_s) for ridge in figure.ridges]
    assert ridges == [("rated", 11.3636, 1.25e13), ("at-clock", 10.0, 1e13)]


COPY = kernel(2, {"fp32": 0.0, "int32": 1e9}, {"l2": 2e9, "dram": 5e8}, label="copy")


def test_kernel_without_floating_point_work_is_shown_by_its_bandwidths() -> None:
    drawn = device_figures(session(*TWO.kernels, COPY), 0)
    assert {point.kernel for point in drawn.roofline.points} == {0, 1}
    assert [group.kernels for group in drawn.roofline.left_out] == [(2,)]
    (note,) = drawn.roofline.notes
    assert "copy (1 launch)" in note
    # 2 GB and 500 MB in 1 ms, of 4 TB/s and 1 TB/s.
    assert [(row.kernel, row.fractions) for row in drawn.bandwidths] == [(2, {"l2": 0.5, "dram": 0.5})]
    assert drawn.throughputs == ()


def test_level_that_limits_a_kernel_is_marked_and_drawn() -> None:
    busy = (Throughput("sm", 0.25), Throughput("l2", 0.9), Throughput("dram", 0.3))
    bound = structs.replace(COPY, throughput=busy)
    (row,) = device_figures(session(bound), 0).bandwidths
    assert (row.binds, row.limit, row.colour) == ("l2", "L2-bound; busiest unit: L2 90 %", "l2")
    placed = kernel(0, {"fp32": 1e9}, {"l2": 2e9, "dram": 5e8}, throughput=busy)
    figure = overview(session(placed))
    assert [(point.level, point.limit, point.ridge) for point in figure.points] == [
        ("dram", "L2-bound", "left"),
        ("l2", "L2-bound", "left"),
    ]
    assert {roof.level for roof in figure.roofs if roof.level} == {"dram", "l2"}


def test_kernel_that_computes_with_integers_is_placed_under_their_ceiling() -> None:
    pipes = (Pipe("alu", 0.8, "alu"), Pipe("fma", 0.1, "fma"))
    hashing = kernel(2, {"fp32": 0.0, "int32": 4e9}, {"dram": 5e8}, label="hash", pipes=pipes)
    figure = overview(session(*TWO.kernels, hashing))
    assert {(point.kernel, point.path) for point in figure.points} == {(0, "fp32"), (1, "fp32"), (2, "int32")}
    assert {roof.path for roof in figure.roofs if roof.path} == {"fp32", "int32"}
    assert figure.left_out == ()


def test_tensor_ceiling_is_drawn_if_a_finding_recommends_tensor_cores() -> None:
    advised = Finding(
        rule="tensor-cores-idle", severity="medium", confidence="measured", evidence=(), place=None, gain_kernel=0.5,
        gain_total=0.5, gain_kind="bound",
    )  # fmt: skip
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e8}))
    figure = overview(replace(read, kernels=(replace(read.kernels[0], findings=(advised,)),)))
    assert {roof.path for roof in figure.roofs if roof.path} == {"fp32", "tensor.fp16"}


def test_report_without_roofline_data_shows_sms_against_memory_or_says_why_it_shows_nothing() -> None:
    busy = (Throughput("sm", 0.25), Throughput("memory", 0.75))
    read = session(kernel(0, throughput=busy), kernel(1, throughput=()))
    drawn = device_figures(read, 0)
    assert [(row.kernel, row.fractions) for row in drawn.throughputs] == [(0, {"sm": 0.25, "memory": 0.75})]
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    draw_plot(plots_of(read, drawn)[0], axes)
    marks = [line for line in axes.lines if line.get_gid()]
    assert [np.ravel(mark.get_xydata()).tolist() for mark in marks] == [[0.75, 0.25]]
    (figure,) = overview_figures(session(kernel(1, throughput=())))
    assert figure.svg is None and "work not collected" in figure.notes[0]
    assert overview_figures(session()) == ()


def test_kernel_of_the_verdict_is_always_drawn_with_a_number() -> None:
    kernels = [kernel(number, {"fp32": 1e9}, {"dram": 1e8}, duration_s=1e-3 / (1 + number)) for number in range(30)]
    read = session(*kernels)
    assert read.verdict is not None
    last = structs.replace(read, verdict=structs.replace(read.verdict, kernel=29))
    figure = overview(last, most=10)
    assert len(figure.points) == 11
    assert [point.kernel for point in figure.points if point.key] == [0, 1, 2, 3, 4, 5, 6, 7, 29]


def test_one_kernel_without_a_point_is_shown_by_its_bandwidths() -> None:
    drawn = kernel_figures(session(*TWO.kernels, COPY), 2)
    assert drawn.roofline.points == () and [row.kernel for row in drawn.bandwidths] == [2]


def test_second_path_is_drawn_only_if_its_units_are_busy() -> None:
    traffic = {"dram": 1e10}
    # Tensor units 40 % busy, FP32 units 20 % busy (drawn), FP64 units 0.02 % busy (not drawn).
    busy = kernel(0, {"tensor.fp16": 4e10, "fp32": 2e9, "fp64": 1e6, "int32": 1e9}, traffic, duration_s=1e-3)
    points = overview(session(busy)).points
    assert points[0].path == "tensor.fp16"
    assert {point.path for point in points} == {"tensor.fp16", "fp32"}


def test_missing_traffic_or_work_gives_no_point_and_says_how_to_collect_it() -> None:
    gap = Missing("traffic.dram", "the report has no dram__bytes.sum", "collect with ncu --set full")
    figure = overview(session(kernel(0, {"fp32": 1e9}, {}, missing=(gap,))))
    assert figure.points == () and {roof.level for roof in figure.roofs if roof.level} == {"dram"}
    (note,) = figure.notes
    assert "kernel_0 (1 launch): DRAM traffic" in note and gap.how in note
    figure = overview(session(kernel(0, {}, {"dram": 1e9})))
    assert [group.why for group in figure.left_out] == ["work not collected"]
    figure = overview(session(kernel(0, {"fp32": 1e9}, {"l2": 1e9, "dram": 1e9})), level="l2", ceiling="rated")
    assert len(figure.left_out) == 1


@each_row(
    ("basis", "certificate", "hollow", "notes"),
    [
        ("counted", "certified", False, 0),
        ("counted", "checked", False, 0),
        # Older sessions do not say what vouches for their counters: nothing is claimed of them.
        ("counted", None, False, 0),
        ("counted", "none", True, 1),
        ("estimated", "none", True, 1),
        ("estimated", "checked", True, 1),
    ],
)
def test_points_that_nothing_vouches_for_are_hollow(
    basis: Basis, certificate: Trust | None, hollow: bool, notes: int
) -> None:
    work = {"fp32": 9e9, "fp64": 5e9}
    figure = overview(session(kernel(0, work, {"dram": 1e9}, basis=basis, certificate=certificate)))
    assert {point.is_hollow for point in figure.points} == {hollow}
    assert {point.uncertified for point in figure.points} == {hollow and basis == "counted"}
    assert len(figure.notes) == notes
    assert all("FP64" in note and "FP32" in note for note in figure.notes) == (basis == "counted")


def test_hierarchical_has_a_point_at_each_level_of_the_main_path() -> None:
    figure = hierarchical(TWO, 0)
    assert [(point.level, point.intensity, point.key) for point in figure.points] == [
        ("l1", 0.625, "0.625 FLOP/B, 16 % of the L1 roofline"),
        ("l2", 1.25, "1.25 FLOP/B, 20 % of the L2 roofline"),
        ("dram", 2.5, "2.50 FLOP/B, 40 % of the DRAM roofline"),
    ]
    assert {roof.id for roof in figure.roofs if roof.origin == "at-clock"} == {
        "at-clock/l1", "at-clock/l2", "at-clock/dram", "at-clock/fp32",
    }  # fmt: skip


def test_hierarchical_roofs_are_those_of_the_kernels_own_clock() -> None:
    slow = kernel(1, {"fp32": 1e9}, {"l1": 1e9, "dram": 1e8}, clock_hz=0.5e9, duration_s=1e-4)
    roofs = {roof.id: roof for roof in hierarchical(session(*TWO.kernels[:1], slow), 1).roofs}
    assert roofs["at-clock/fp32"].value == pytest.approx(5e12)
    assert roofs["at-clock/fp32"].value_text == "5.00 TFLOP/s at 500 MHz"
    assert roofs["at-clock/dram"].value == pytest.approx(1e12)
    assert roofs["rated/fp32"].value == pytest.approx(1.25e13)


def test_figure_data_has_every_kernel_at_intensity_and_rate_longest_first() -> None:
    data = digits(overview(TWO))
    assert isinstance(data, dict) and data == digits(overview(TWO))
    assert data["points"] == [
        {
            "kernel": 1, "label": "kernel_1", "source": "", "path": "fp32", "level": "dram",
            "intensity": 30.0, "flop_per_s": 7.5e12, "share": 0.8, "roof_flop_per_s": 1e13, "fraction_of_roof": 0.75,
            "ceiling": "at-clock", "ridge": "right", "limit": "limit unknown", "colour": "unknown", "estimated": False,
            "uncertified": False, "key": "kernel_1: 75 % of the DRAM roofline; limit unknown; busiest unit: DRAM 50 %",
            "side": "", "faint": False,
        },
        {
            "kernel": 0, "label": "kernel_0", "source": "", "path": "fp32", "level": "dram",
            "intensity": 2.5, "flop_per_s": 1e12, "share": 0.2, "roof_flop_per_s": 2.5e12, "fraction_of_roof": 0.4,
            "ceiling": "at-clock", "ridge": "left", "limit": "limit unknown", "colour": "unknown", "estimated": False,
            "uncertified": False, "key": "kernel_0: 40 % of the DRAM roofline; limit unknown; busiest unit: DRAM 50 %",
            "side": "", "faint": False,
        },
    ]  # fmt: skip
