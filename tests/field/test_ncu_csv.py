"""CSV of ncu 2024.1 and others, against the reports that it was printed from and what is known of it."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ncu_report
import pytest

from gpuprof.errors import InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.details_labels import metric_name
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.units import ncu_unit
from tests.field.folder import folder, report

METRIC = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")


def read(path: Path) -> Report:
    return read_ncu_csv(path.read_text("utf-8"), path.name, "00")


def value(launch: Launch, name: str) -> float | str | None:
    metric = launch.metrics.get(name)
    return None if metric is None else metric.value


def actions(name: str) -> Iterator[Any]:
    context = ncu_report.load_report(str(report(name)))
    for number in range(context.num_ranges()):
        yield from context.range_by_idx(number)


def printed(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def last_place(cell: str, unit: str) -> float:
    """Return half a unit in the last printed place, in the base unit."""
    places = len(cell.partition(".")[2])
    factor = 1e3 if unit == "%/Kbyte" else ncu_unit(unit)[0]
    return 0.5001 * factor * 10.0**-places if places else 0.0


def differs(ours: float | str | None, theirs: object, unit: str, tolerance: float) -> bool:
    if isinstance(theirs, (int, float)) and not isinstance(ours, str):
        if not math.isfinite(theirs):
            return ours is not None
        if ours is None:
            return theirs != 0  # a CSV leaves empty where ncu_report gives 0 for metrics that have instances only
        return abs(ours - theirs * ncu_unit(unit)[0]) > tolerance + 1e-9 * abs(ours)
    return ours != (theirs or None)


@pytest.mark.parametrize("kind", ["raw", "details"])
def test_a_page_equals_the_report_it_was_printed_from(kind: str) -> None:
    pages = sorted((folder() / "ncu-2024.1-export").glob(f"*.{kind}.csv"))
    assert pages
    for path in pages:
        (compare_raw if kind == "raw" else compare_details)(path, path.name.removesuffix(f".{kind}.csv"))


def compare_raw(path: Path, stem: str) -> None:
    ours, recorded = read(path), list(actions(f"{stem}.ncu-rep"))
    header, (units, *rows) = printed(path)
    assert len(ours.launches) == len(recorded) == len(rows)
    wrong, compared = [], 0
    for launch, action, row in zip(ours.launches, recorded, rows, strict=True):
        known = set(action.metric_names())
        assert launch.name == action.name(action.NameBase_FUNCTION)
        for name, unit, cell in zip(header, units, row, strict=True):
            # ncu prints NaN samples as 0.000000; nothing in the page tells them apart.
            metric = action.metric_by_name(name) if name in known else None
            if metric is None or (name.startswith("pmsampling:") and math.isnan(metric.value() or 0.0)):
                continue
            mine = value(launch, name)
            compared += mine is not None
            if differs(mine, metric.value(), metric.unit(), last_place(cell, unit)):
                wrong.append((name, cell, unit, mine, metric.value(), metric.unit()))
    assert wrong == [] and compared > 250 * len(rows)


def compare_details(path: Path, stem: str) -> None:
    ours, recorded = read(path), list(actions(f"{stem}.ncu-rep"))
    header, rows = printed(path)
    assert len(ours.launches) == len(recorded)
    wrong, compared = [], set()
    for row in rows:
        section, label, unit, cell = (row[header.index(column)] for column in METRIC)
        if not label or cell in {"n/a", "nan"}:
            continue
        number = int(row[0])
        name = metric_name(section, label, ncu_unit(unit)[1])
        metric = recorded[number].metric_by_name(name)
        assert metric is not None, (section, label, name)
        mine = value(ours.launches[number], name)
        compared.add((number, name))
        if mine is None or differs(mine, metric.value(), metric.unit(), last_place(cell, unit)):
            wrong.append((section, label, cell, unit, mine, metric.value(), metric.unit()))
    assert wrong == []
    assert len(compared) == sum(len(launch.metrics.names()) for launch in ours.launches)


def test_exports_of_programs_of_2020_to_2025() -> None:
    old = read(report("csv/interpolate-with-program-output.csv"))
    assert len(old.launches) == 198 and {len(launch.metrics.names()) for launch in old.launches} == {21}
    assert {launch.name for launch in old.launches} == {"upsample_bilinear2d_out_frame"} and len(old.warnings) == 1
    torch = read(report("csv/bert-torch-details.csv"))
    first = torch.launches[0]
    assert (len(torch.launches), torch.warnings) == (26, ())
    assert (first.name, first.grid) == ("distribution_elementwise_grid_stride_kernel", None)
    assert first.metrics.number("sm__cycles_elapsed.avg.per_second") == pytest.approx(967585940.83)
    assert first.metrics.number("launch__grid_size") == 256
    ada = read(report("csv/rtx5090-details.csv"))
    (launch,) = ada.launches
    assert (launch.name, launch.grid, launch.block) == ("kernel", (1712, 1, 1), (16, 4, 1))
    assert ada.devices[0].compute_capability == "12.0"
    assert launch.metrics.number("dram__bytes.sum.per_second") == pytest.approx(958.09e9)
    assert launch.metrics.number("gpu__time_duration.sum") == pytest.approx(18.34e-6)
    (roofline,) = read(report("csv/rtx5090-roofline-section.csv")).launches
    ffma = roofline.metrics.number("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained")
    assert ffma == 21760 == 170 * 128
    assert roofline.metrics.number("dram__cycles_elapsed.avg.per_second") == pytest.approx(13.77e9)
    for each in (*torch.launches, launch, roofline):
        assert not any(name.startswith("details:") for name in each.metrics.names())
    with pytest.raises(InputError, match=r"error code \(2\)"):
        read(report("csv/errors-only.csv"))
