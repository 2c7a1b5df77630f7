"""Drawn rooflines: ids and texts of the SVG, no collisions, stable bytes, hostile names."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from msgspec import structs

from gpuprof.hardware.specs import PATHS
from gpuprof.model.session import RooflinePoint, Session
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.plot import render_svg
from gpuprof.present.plot_axes import axes_of, axes_shapes
from gpuprof.present.plot_matplotlib import drawn_sheet
from gpuprof.present.plot_shapes import Label, Line, Mark
from gpuprof.present.plot_sheet import sheet_of
from gpuprof.present.plot_text import text_width
from gpuprof.present.roofline_figure import RooflineFigure
from gpuprof.views.theme import contrast_ratio, page_colours, theme_colours
from tests.table import each_row
from tests.test_figures import HOSTILE, TWO, kernel, session

SVG = "{http://www.w3.org/2000/svg}"


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


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.fromstring(svg).iter(f"{SVG}text")]


def ids(svg: str) -> list[str]:
    return [node.get("id", "") for node in ET.fromstring(svg).iter() if node.get("id")]


def test_svg_names_every_roof_with_its_value_and_every_point() -> None:
    svg = render_svg(overview(TWO))
    assert {"DRAM 1.10 TB/s rated", "DRAM 1.00 TB/s at 1.00 GHz", "kernel_1, 75 %", "kernel_0, 40 %"} <= set(texts(svg))
    assert {"overview-0-dram-roof-rated-dram", "overview-0-dram-point-1-fp32-dram"} <= set(ids(svg))
    assert any(name.startswith("overview-0-dram-ridge-fp32") for name in ids(svg))
    root = ET.fromstring(svg)
    titles = [node.text or "" for node in root.iter(f"{SVG}title")]
    assert root.get("role") == "img" and titles[0].startswith("NVIDIA Test GPU")
    (point,) = (title for title in titles if title.startswith("kernel_0 #0"))
    assert "1.00 TFLOP/s" in point and "2.50 FLOP/B" in point and "40 %" in point


def test_colours_stand_out_in_both_themes() -> None:
    colours = page_colours()
    for index, background in enumerate(colours["--gp-background"]):
        for name, values in colours.items():
            if name.startswith("--gp-text") or name in {"--gp-ink", "--gp-muted"}:
                assert contrast_ratio(values[index], background) >= 4.5, name
            elif name.startswith("--gp-line"):
                assert contrast_ratio(values[index], background) >= 3.0, name


def test_a_figure_refers_to_its_own_unique_ids_alone() -> None:
    svg, page = render_svg(overview(TWO)), render_svg(overview(TWO), "page")
    own, other = ids(svg), ids(render_svg(hierarchical(TWO, 0)))
    assert len(own) == len(set(own)) and not set(own) & set(other)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(ids(page))
    assert "<!DOCTYPE" not in svg and "<metadata" not in svg and re.findall(r'(?:href|src)="(?!#)', svg) == []
    assert "var(--gp-line-fp32, " in page and "#fa0" not in page and not re.search(r"<svg[^>]*\swidth=", page)


@each_row("theme", ["light", "page"])
def test_hostile_names_are_text_everywhere(theme: str) -> None:
    figure = overview(session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=HOSTILE)))
    svg = render_svg(figure, "page" if theme == "page" else "light")
    written = " ".join(texts(svg))
    assert "<img" not in svg and "</script><img" in written
    assert "\x1b" not in svg and "\u202e" not in svg and "var(" not in written
    mathematics = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label="f$\\frac{a}{b}$"))
    assert any("f$\\frac{a}{b}$" in text for text in texts(render_svg(overview(mathematics))))


def _label_boxes(figure: RooflineFigure) -> Iterator[tuple[str, object]]:
    """Yield each text inside the axes with its extent, as the renderer measures it; slanted ones are left out."""
    drawn = drawn_sheet(figure, theme_colours("light"))
    (axes,) = drawn.axes
    renderer = drawn.canvas.get_renderer()  # type: ignore[attr-defined]
    frame = axes.get_window_extent(renderer)
    for text in axes.texts:
        extent = text.get_window_extent(renderer)
        assert frame.x0 <= extent.x0 and extent.x1 <= frame.x1, text.get_text()
        assert frame.y0 <= extent.y0 and extent.y1 <= frame.y1, text.get_text()
        if text.get_rotation() == 0:
            yield text.get_text(), extent


@each_row("count", [2, 60])
def test_labels_lie_inside_the_frame_and_not_on_each_other(count: int) -> None:
    boxes = list(_label_boxes(overview(many(count))))
    assert len(boxes) >= 1
    for index, (name, box) in enumerate(boxes):
        for other_name, other in boxes[index + 1 :]:
            assert not box.overlaps(other), (name, other_name)  # type: ignore[attr-defined]


def _around(drawn: Figure) -> list[Text]:
    """Return the texts around the axes."""
    return [artist for artist in drawn.artists if isinstance(artist, Text)]


def drawn_texts(figure: RooflineFigure) -> list[str]:
    """Return all texts of the figure as matplotlib draws it, but for marks of direction."""
    drawn = drawn_sheet(figure, theme_colours("light"))
    (axes,) = drawn.axes
    ticks = [text for axis in (axes.xaxis, axes.yaxis) for text in axis.get_ticklabels()]
    names = [axes.xaxis.label, axes.yaxis.label]
    return [text.get_text().lstrip("\u200e") for text in (*_around(drawn), *axes.texts, *ticks, *names)]


FAR = session(kernel(0, {"fp32": 1e9}, {"dram": 1e-9}), kernel(1, {"fp32": 1e-3}, {"dram": 1e12}))
HEBREW = session(kernel(0, {"fp32": 1e9}, {"l2": 3e9, "dram": 1e9}, label="\u05e9\u05dc\u05d5\u05dd"))
FIGURES = (overview(TWO), hierarchical(TWO, 0), overview(many(60)), overview(FAR), overview(HEBREW))


@each_row("figure", FIGURES)
def test_svg_and_matplotlib_draw_the_same(figure: RooflineFigure) -> None:
    assert sorted(drawn_texts(figure)) == sorted(texts(render_svg(figure)))
    for axis, bounds in zip(axes_of(figure), (figure.intensity_range, figure.flop_per_s_range), strict=True):
        assert len(axis.ticks) >= 2 and all(bounds[0] <= value <= bounds[1] for value, _ in axis.ticks)


def test_name_that_runs_from_right_to_left_does_not_turn_the_label_around() -> None:
    (axes,) = drawn_sheet(overview(HEBREW), theme_colours("light")).axes
    (label,) = (text.get_text() for text in axes.texts if text.get_text().endswith(", 100 %"))
    assert unicodedata.bidirectional(label[0]) == "L"


def test_ticks_of_a_wide_range_are_few_and_short() -> None:
    x, y = axes_of(overview(FAR))
    assert [text for _, text in x.ticks] == [
        "1e-15", "1e-12", "1e-9", "1e-6", "0.001", "1", "1000", "1e6", "1e9", "1e12", "1e15", "1e18",
    ]  # fmt: skip
    assert [text for _, text in y.ticks] == ["1", "100", "10 k", "1 M", "100 M", "10 G", "1 T"]


def test_key_has_as_many_rows_as_it_needs() -> None:
    kernels = (
        structs.replace(kernel(number, {"fp32": 1e9}, {"dram": 1e9}), work=(), roofline=(point,))
        for number, path in enumerate(PATHS)
        if path != "int32"
        for point in (
            RooflinePoint(
                path=path,
                level="dram",
                intensity=1.0,
                flop_per_s=1e12,
                roof_flop_per_s=1e12,
                fraction_of_roof=1.0,
                ceiling="at-clock",
                bound="memory",
            ),
        )
    )
    sheet = sheet_of(overview(session(*kernels)), theme_colours("light"), heading=True)
    labels = [shape for shape in sheet.around if isinstance(shape, Label)]
    for label in labels:
        assert sheet.corner[0] + label.place[0] + text_width(label.text, label.size) <= sheet.size[0] - 16, label.text
    ends: dict[float, float] = {}
    for label in labels:
        start, height = label.place
        assert start > ends.get(height, -math.inf), label.text
        ends[height] = start + text_width(label.text, label.size)


def test_title_of_a_long_name_ends_before_the_sheet_does() -> None:
    figure = hierarchical(session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label="kernel_" * 99)), 0)
    drawn = drawn_sheet(figure, theme_colours("light"))
    title = next(text for text in _around(drawn) if text.get_fontweight() == "bold")
    assert title.get_window_extent().x1 < drawn.bbox.x1 - 15


def test_notes_are_in_the_order_in_which_they_are_read() -> None:
    figure = structs.replace(overview(TWO), notes=("First note.", "Second note."))
    svg = render_svg(figure)
    assert svg.index("First note.") < svg.index("Second note.")


def test_label_hides_no_two_points() -> None:
    shapes = axes_shapes(overview(many(14, "w" * 40)), (542.0, 358.0), theme_colours("light"))
    marks = [shape for shape in shapes if isinstance(shape, Mark) and shape.kernel is not None]
    for label in shapes:
        if isinstance(label, Label) and label.rotation == 0:
            (left, bottom), width = label.place, text_width(label.text, label.size)
            hidden = [
                mark for mark in marks
                if left <= mark.place[0] <= left + width and bottom <= mark.place[1] <= bottom + label.size
            ]  # fmt: skip
            assert len(hidden) <= 1, label.text


def test_label_does_not_lie_on_the_line_between_its_kernels_points() -> None:
    figure = hierarchical(session(kernel(0, {"fp32": 1e9}, {"l1": 1e9, "l2": 1e9, "dram": 1e8})), 0)
    shapes = axes_shapes(figure, (542.0, 358.0), theme_colours("light"))
    (chain,) = (shape for shape in shapes if isinstance(shape, Line) and shape.dashes == (1.0, 2.0))
    (left, height), (right, _) = chain.places[0], chain.places[-1]
    for label in shapes:
        if isinstance(label, Label) and label.id.startswith("label-point") and left < label.place[0] < right:
            assert not label.place[1] < height < label.place[1] + label.size, label.text


def test_faint_point_is_as_faint_in_both() -> None:
    figure = overview(TWO)
    faint = structs.replace(figure, points=tuple(structs.replace(point, faint=True) for point in figure.points))
    svg = render_svg(faint)
    assert svg.count("fill-opacity:0.16;stroke-opacity:0.35") == 2
    (axes,) = drawn_sheet(faint, theme_colours("light")).axes
    marks = [line for line in axes.lines if line.get_linestyle() == "None" and line.get_markersize() > 5]
    assert [to_rgba(line.get_markerfacecolor())[3] for line in marks] == [0.35 * 0.45] * 2
    assert [to_rgba(line.get_markeredgecolor())[3] for line in marks] == [0.35] * 2


def test_widths_of_texts_are_those_of_the_font() -> None:
    properties = FontProperties(family="DejaVu Sans", size=9.0)
    for text in ("DRAM 3.35 TB/s at 2.62 GHz", "void gemm<float, 128>(int*) #12", "L2: 0.167 FLOP/B, 27 %", "≤ 4 µs…"):
        width, _, _ = text_to_path.get_text_width_height_descent(text, properties, False)
        assert abs(text_width(text, 9.0) / width - 1) < 0.02, text
    assert text_width("漢字", 9.0) == 18.0


def test_an_svg_is_drawn_without_matplotlib() -> None:
    words = (
        "import sys; from gpuprof.present.plot import render_svg; from gpuprof.present.figures import overview;"
        "from tests.test_figures import TWO; render_svg(overview(TWO)); print('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout == "False\n"
