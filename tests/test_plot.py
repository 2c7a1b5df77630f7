"""Drawn rooflines: ids and texts of the SVG, no collisions, stable bytes, hostile names."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from gpuprof.model.session import Session
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.plot import render_svg
from gpuprof.present.plot_matplotlib import drawn_sheet
from gpuprof.present.plot_text import text_width
from gpuprof.present.plot_theme import contrast_ratio, page_colours, theme_colours
from gpuprof.present.roofline_figure import RooflineFigure
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
