"""Drawn figures: ids, texts, links and colours of the SVG, no labels on each other, stable bytes, hostile names."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from gpuprof.model.session import Session
from gpuprof.views.plot import draw_plot, figure_svg, number_marks, plot_file, spots_between
from gpuprof.views.roofline import device_figures, overview_figures, plots_of
from gpuprof.views.roofline_data import hierarchical, overview
from gpuprof.views.roofline_plot import roofline_drawing
from gpuprof.views.theme import ThemeName, contrast_ratio, theme_colours
from tests.table import each_row
from tests.test_figures import COPY, HOSTILE, TWO, kernel, session

SVG = "{http://www.w3.org/2000/svg}"
LINKS = {0: "#row-0", 1: "#row-1"}


def many(count: int, label: str = "kernel_{}") -> Session:
    """Return kernels spread under both sides of the roof, each half as long as the one before, to a point."""
    return session(
        *(
            kernel(
                number, {"fp32": 1e9 * (1 + number % 17)}, {"dram": 1e9 * 10 ** (number % 7 / 3 - 1)},
                duration_s=1e-3 * (1 + 9 / (1 + number)) * (2 + number % 5), label=label.format(number),
            )
            for number in range(count)
        ),
        measured={"fp32": 9.6e12, "dram": 9.2e11},
    )  # fmt: skip


def page_svg(read: Session) -> str:
    return figure_svg(roofline_drawing(overview(read)), LINKS)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.fromstring(svg).iter(f"{SVG}text")]


def ids(svg: str) -> list[str]:
    return [node.get("id", "") for node in ET.fromstring(svg).iter() if node.get("id")]


def test_svg_names_every_roof_with_its_values_and_every_point() -> None:
    svg = page_svg(TWO)
    assert "DRAM 1.10 TB/s rated, 1.00 TB/s at 1.00 GHz" in texts(svg)
    assert roofline_drawing(overview(TWO)).notes == (
        "1: kernel_1: 75 % of the DRAM roofline; limit unknown; busiest unit: DRAM 50 %",
        "0: kernel_0: 40 % of the DRAM roofline; limit unknown; busiest unit: DRAM 50 %",
    )
    assert {"overview-0-dram-roof-rated-dram", "overview-0-dram-point-1-fp32-dram"} <= set(ids(svg))
    root = ET.fromstring(svg)
    assert root.get("class") == "figure" and root.get("role") == "group"
    assert (root.get("aria-label") or "").startswith("NVIDIA Test GPU")
    points = [node for node in root.iter(f"{SVG}g") if node.get("data-kernel")]
    assert [node.get("data-kernel") for node in points] == ["1", "0"]
    title = points[1].findtext(f"{SVG}title") or ""
    assert all(text in title for text in ("1.00 TFLOP/s", "2.50 FLOP/B", "40 %", "limit unknown", "left of the ridge"))
    link = points[1].find(f"{SVG}a")
    assert link is not None and link.get("href") == "#row-0"
    assert "_child" not in svg
    assert link.findall(f".//{SVG}use")


@each_row("theme", ["light", "dark"])
def test_colours_stand_out_in_both_themes(theme: ThemeName) -> None:
    colours = theme_colours(theme)
    for name, colour in colours.items():
        least = {"ink": 4.5, "muted": 4.5, "grid": 1.0, "background": 1.0}.get(name, 3.0)
        assert contrast_ratio(colour, colours["background"]) >= least, name


def test_figure_refers_to_its_own_unique_ids_alone_and_takes_the_colours_of_its_page() -> None:
    page = page_svg(TWO)
    own, other = ids(page), ids(figure_svg(roofline_drawing(hierarchical(TWO, 0)), {}))
    assert len(own) == len(set(own)) and not set(own) & set(other)
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) - {"row-0", "row-1"}
    assert references and references <= set(own)
    assert "<!DOCTYPE" not in page and "<metadata" not in page and "<style" not in page
    assert "var(--gp-line-unknown, " in page and not re.search("#fa0[0-9a-f]{3}", page)
    assert not re.search(r"<svg[^>]*\swidth=", page) and 'role="img"' in figure_svg(roofline_drawing(overview(TWO)), {})


@each_row("form", ["svg", "png", "pdf"])
def test_file_is_the_same_bytes_each_time(form: str) -> None:
    plots = plots_of(TWO, device_figures(session(*TWO.kernels, COPY), 0))
    content = plot_file(plots, form)
    assert content == plot_file(plots, form)
    assert content.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form])


@each_row("label", [HOSTILE, "f$\\frac{a}{b}$", "\u05e9\u05dc\u05d5\u05dd", "\u6f22" * 200, "w" * 900, "\ud800"])
def test_any_name_is_text_everywhere(label: str) -> None:
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=label), COPY)
    svg = plot_file(plots_of(read, device_figures(read, 0)), "svg").decode()
    written = " ".join(texts(svg))
    assert label[:7].strip("\ud800") in written and len(svg) < 60_000
    for drawn in (page_svg(read), svg):
        assert "<img" not in drawn and "\x1b" not in drawn and "\u202e" not in drawn
        assert "var(" not in " ".join(texts(drawn))
    for figure in overview_figures(read):
        assert figure.svg is not None and ET.fromstring(figure.svg()).get("class") == "figure"


@each_row("count", [2, 60])
def test_numbers_lie_inside_the_frame_and_not_on_each_other(count: int) -> None:
    axes = Figure(figsize=(7.5, 4.7)).add_subplot()
    draw_plot(roofline_drawing(overview(many(count))), axes)
    boxes = {text: text.get_window_extent() for text in axes.texts if text.get_text().isdecimal()}
    assert len(boxes) > 1
    for text, box in boxes.items():
        assert all(other is text or not box.overlaps(boxes[other]) for other in boxes)
        assert axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1 and axes.bbox.y0 < box.y0 and box.y1 < axes.bbox.y1


FAR = session(kernel(0, {"fp32": 1e9}, {"dram": 1e-9}), kernel(1, {"fp32": 1e-3}, {"dram": 1e12}))


def test_ticks_of_a_wide_range_are_few_and_short() -> None:
    written = texts(page_svg(FAR))
    ticks = [text for text in written if re.fullmatch(r"[0-9.e+-]+(?: [kMGTP])?", text)]
    assert 10 < len(ticks) < 30 and all(len(tick) <= 6 for tick in ticks)


def test_matplotlib_is_imported_only_to_draw() -> None:
    words = (
        "import sys; from gpuprof.views.roofline import overview_figures;"
        "from tests.test_figures import TWO; overview_figures(TWO); print('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout == "False\n"


def numbers_beside(
    *places: tuple[float, float], others: Sequence[tuple[float, float]] = ()
) -> list[tuple[float, float]]:
    """Return where the numbers of marks of 40 square points are, in axes of 100 × 100 points."""
    ax = Figure(figsize=(100 / 72, 100 / 72), dpi=72).add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set(xlim=(0.0, 100.0), ylim=(0.0, 100.0))
    number_marks(ax, theme_colours("light"), [(place, 40.0, "7") for place in places], [*places, *others])
    offsets = [(float(text.xyann[0]), float(text.xyann[1])) for text in ax.texts if isinstance(text, Annotation)]
    return [(x + dx, y + dy) for (x, y), (dx, dy) in zip(places, offsets, strict=True)]


def test_a_number_stands_to_the_right_of_its_mark_if_there_is_room() -> None:
    ((x, y),) = numbers_beside((50.0, 50.0))
    assert x > 50.0 and y == pytest.approx(50.0)


def test_numbers_keep_away_from_marks_from_each_other_and_from_lines() -> None:
    marks = [(40.0, 50.0), (52.0, 50.0), (46.0, 60.0)]
    line = spots_between((52.0, 50.0), (100.0, 50.0))
    numbers = numbers_beside(*marks, others=line)
    for place, own in zip(numbers, marks, strict=True):
        rest = [*(mark for mark in marks if mark != own), *line[2:], *(other for other in numbers if other != place)]
        assert min(math.dist(place, other) for other in rest) > 8.0
        assert min(marks, key=lambda mark: math.dist(place, mark)) == own


def test_spots_are_a_letter_apart() -> None:
    spots = spots_between((0.0, 0.0), (30.0, 40.0))
    assert (spots[0], spots[-1], len(spots)) == ((0.0, 0.0), (30.0, 40.0), 11)
