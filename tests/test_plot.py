"""Drawn figures: ids, texts, links and colours of the SVG, no labels on each other, stable bytes, hostile names."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from matplotlib.figure import Figure
from matplotlib.text import Text

from gpuprof.model.session import Session
from gpuprof.views.plot import sheet_of
from gpuprof.views.plot_files import figure_svg, plot_file
from gpuprof.views.plot_values import Plot
from gpuprof.views.roofline import device_figures, overview_figures, plots_of
from gpuprof.views.roofline_data import hierarchical, overview
from gpuprof.views.roofline_plot import roofline_plot
from gpuprof.views.theme import contrast_ratio, page_colours, theme_colours
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
    return figure_svg(roofline_plot(overview(read)), LINKS)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.fromstring(svg).iter(f"{SVG}text")]


def ids(svg: str) -> list[str]:
    return [node.get("id", "") for node in ET.fromstring(svg).iter() if node.get("id")]


def test_svg_names_every_roof_with_its_values_and_every_point() -> None:
    svg = page_svg(TWO)
    assert {
        "DRAM 1.10 TB/s rated, 1.00 TB/s at 1.00 GHz",
        "1:  kernel_1: 75 % of the DRAM roofline, limit unknown",
        "0:  kernel_0: 40 % of the DRAM roofline, limit unknown",
    } <= set(texts(svg))
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
    assert points[1].findall(f".//{SVG}use[@class='mark']")


def test_colours_stand_out_in_both_themes() -> None:
    colours = page_colours()
    for index, background in enumerate(colours["--gp-background"]):
        for name, values in colours.items():
            if name.startswith("--gp-text") or name in {"--gp-ink", "--gp-muted"}:
                assert contrast_ratio(values[index], background) >= 4.5, name
            elif name.startswith("--gp-line"):
                assert contrast_ratio(values[index], background) >= 3.0, name


def test_figure_refers_to_its_own_unique_ids_alone_and_takes_the_colours_of_its_page() -> None:
    page = page_svg(TWO)
    own, other = ids(page), ids(figure_svg(roofline_plot(hierarchical(TWO, 0)), {}))
    assert len(own) == len(set(own)) and not set(own) & set(other)
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) - {"row-0", "row-1"}
    assert references and references <= set(own)
    assert "<!DOCTYPE" not in page and "<metadata" not in page and "<style" not in page
    assert "var(--gp-line-unknown, " in page and not re.search("#fa0[0-9a-f]{3}", page)
    assert not re.search(r"<svg[^>]*\swidth=", page) and 'role="img"' in figure_svg(roofline_plot(overview(TWO)), {})


@each_row("form", ["svg", "png", "pdf"])
def test_file_is_the_same_bytes_each_time(form: str) -> None:
    plots = plots_of(TWO, device_figures(session(*TWO.kernels, COPY), 0))
    content = plot_file(plots, form)
    assert content == plot_file(plots, form)
    assert content.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form])


@each_row("label", [HOSTILE, "f$\\frac{a}{b}$", "\u05e9\u05dc\u05d5\u05dd", "\u6f22" * 200, "w" * 900, "\ud800"])
def test_any_name_is_text_everywhere(label: str) -> None:
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=label), COPY)
    for svg in (page_svg(read), plot_file(plots_of(read, device_figures(read, 0)), "svg").decode()):
        written = " ".join(texts(svg))
        assert "<img" not in svg and "\x1b" not in svg and "\u202e" not in svg and "var(" not in written
        assert label[:7].strip("\ud800") in written.replace("\u200e", "")
        assert len(svg) < 60_000
    for figure in overview_figures(read):
        assert figure.svg is not None and ET.fromstring(figure.svg()).get("class") == "figure"


def _boxes(plot: Plot) -> Iterator[tuple[str, object]]:
    """Yield each text inside the axes with its extent, as the renderer measures it; slanted ones are left out."""
    sheet = _sheet(plot, heading=False)
    (axes,) = sheet.axes
    renderer = sheet.canvas.get_renderer()  # type: ignore[attr-defined]
    frame = axes.get_window_extent(renderer)
    for text in axes.texts:
        extent = text.get_window_extent(renderer)
        if extent.y0 > frame.y0 and text.get_rotation() == 0:
            assert frame.x0 <= extent.x0 and extent.x1 <= frame.x1 and extent.y1 <= frame.y1, text.get_text()
            yield text.get_text(), extent


def _sheet(plot: Plot, *, heading: bool = True) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    sheet = sheet_of([plot], theme_colours("light"), heading=heading)
    FigureCanvasAgg(sheet)
    # As in pictures: at the 72 dpi of an SVG, letters would be widened to whole pixels.
    sheet.set_dpi(200)
    return sheet


@each_row("count", [2, 60])
def test_labels_lie_inside_the_frame_and_not_on_each_other(count: int) -> None:
    boxes = list(_boxes(roofline_plot(overview(many(count)))))
    assert len(boxes) > 2
    for index, (name, box) in enumerate(boxes):
        for other_name, other in boxes[index + 1 :]:
            assert not box.overlaps(other), (name, other_name)  # type: ignore[attr-defined]


@each_row("letter", ["w", "W", "i"])
def test_texts_around_the_axes_end_before_the_sheet_does(letter: str) -> None:
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=letter * 400))
    for figure in (overview(read), hierarchical(read, 0)):
        sheet = _sheet(roofline_plot(figure))
        written = [artist for artist in (*sheet.texts, *sheet.axes[0].texts) if isinstance(artist, Text)]
        assert written and all(text.get_window_extent().x1 < sheet.bbox.x1 for text in written)


FAR = session(kernel(0, {"fp32": 1e9}, {"dram": 1e-9}), kernel(1, {"fp32": 1e-3}, {"dram": 1e12}))


def test_ticks_of_a_wide_range_are_few_and_short() -> None:
    plot = roofline_plot(overview(FAR))
    assert [text for _, text in plot.x.ticks] == [
        "1e-15", "1e-12", "1e-9", "1e-6", "0.001", "1", "1000", "1e6", "1e9", "1e12", "1e15", "1e18",
    ]  # fmt: skip
    assert [text for _, text in plot.y.ticks] == ["1", "100", "10 k", "1 M", "100 M", "10 G", "1 T"]


def test_matplotlib_is_imported_only_to_draw() -> None:
    words = (
        "import sys; from gpuprof.views.roofline import overview_figures;"
        "from tests.test_figures import TWO; overview_figures(TWO); print('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout == "False\n"
