"""Documents made by hand: one with every block, whose texts are all given, and one that looks like a profile."""

from __future__ import annotations

from html import escape

from gpuprof.text import printable
from gpuprof.views.document import (
    Bar,
    Bars,
    Block,
    Cell,
    Code,
    CodeLine,
    Column,
    Command,
    Document,
    Evidence,
    Facts,
    Figure,
    Finding,
    Findings,
    Fold,
    Heading,
    Note,
    Recommendation,
    Recommendations,
    Table,
    Tree,
)


def every_block(text: str) -> Document:
    """Return a document that has every block, with `text` in every field that a file can fill."""
    cell = Cell(text, tone="muted", href="kernels", bar=0.4, mark=0.5, whole=text, code=True)
    table = Table(
        label=text,
        columns=(Column(text, "name", meaning=text), Column(text, "text", rank=1), Column(text, "number", rank=2)),
        rows=((text, text, "1"), (cell, cell, Cell("2", order=2.0))),
        more=text,
        short_more=lambda _: text,
    )
    recommendation = Recommendation(
        headline=text, action=text, gain=text, of=text, condition=text, place=text, kernels=cell, certainty=text,
        rule=text, severity="high", bar=0.4, href="kernels",
    )  # fmt: skip
    finding = Finding(
        rule=text, severity="high", headline=text, gain=text, remains=text, certainty=text, why=text, action=text,
        advice=text, place=cell, evidence=(Evidence(text, cell, text, text),), places=(text,),
    )  # fmt: skip
    explained = Finding(
        rule=text, severity="low", headline=text, gain=text, remains=text, certainty=text, why=text, action=text,
        advice=text, place=cell, explained_by=cell,
    )  # fmt: skip
    lines = (
        CodeLine(text, text, 1.0, (cell, text), marked=True),
        CodeLine(text, None, 0.0, (text, text)),
        CodeLine(text, text, across=True, tone="muted"),
    )
    bars = (Bar(cell, 0.4, text, text), Bar(text, None, text, colour="#d55e00"), Bar(text, 0.6, text, colour=text))
    blocks: tuple[Block, ...] = (
        Note(text, "strong", short=text),
        Heading(cell, 2, "kernels"),
        Note(cell),
        Recommendations((recommendation,), text, text),
        Facts(((text, text), (text, cell)), text),
        table,
        Figure(lambda: figure_svg(text), alt=text, notes=(text,), id="figure", caption=text),
        Figure(None, alt=text, notes=(text,)),
        Fold(
            text,
            (
                Heading(text, 3),
                Findings((finding, explained)),
                Code(text, lines, (text, text)),
                Bars(text, bars, text, text),
                Bars(text, bars, text, text, stacked=True),
                Tree(cell, text, (Tree(text),)),
                Command(text, text),
                Fold(text, (Note(text),)),
            ),
            open=True,
            anchor="kernel-0",
        ),
    )
    return Document(text, blocks, version="1")


def profile_like(count: int, name: str = "void scale<{}>(float const*, int)") -> Document:
    """Return a document like that of a profile of `count` kernels, each half as long as the one before."""
    names = [name.replace("{}", str(index)) for index in range(count)]
    rows = []
    for index, label in enumerate(names):
        share = 0.5 ** min(index + 1, 20)
        stall = Cell("Long Scoreboard 61 %", order=0.61) if index % 2 == 0 else Cell("none", tone="muted")
        row = (
            Cell(str(index), order=index),
            Cell(label, href=f"kernel-{index}", whole=label),
            Cell(f"{1e3 * share:.3g} µs", order=share),
            Cell(f"{100 * share:.2g} %", order=share, bar=share),
            stall,
        )
        rows.append(row)
    columns = (
        Column("#", "number", id="number"),
        Column("Kernel", "name"),
        Column("Time", "number"),
        Column("Share", "number", meaning="Of the time of all kernels."),
        Column("Main stall", "text"),
    )
    anchors = tuple(f"row-{index}" for index in range(count))
    recommendation = Recommendation(
        headline="Uncoalesced global access: loads use 4 of 32 bytes", action="Make the access contiguous",
        gain="≤ 31 %", of="of the run", condition="with the same L2 traffic", place="gather.cu:41",
        kernels=Cell(f"#0 {names[0]}", href="kernel-0"), certainty="measured", rule="uncoalesced-global",
        severity="high", bar=0.31, href="finding-0-uncoalesced-global",
    )  # fmt: skip
    blocks: tuple[Block, ...] = (
        Note(f"{names[0]} (50 % of GPU time) is L2-bound (91 %): uncoalesced loads at gather.cu:41", "strong"),
        Note(f"1 of {count} kernels takes half of 1.00 ms of GPU time on an NVIDIA H100 80GB HBM3."),
        Facts((("GPU", "NVIDIA H100 80GB HBM3, compute capability 9.0, 132 SMs"), ("SM clock", "1.98 GHz"))),
        Heading("Fix first", 2, "fix-first"),
        Recommendations((recommendation,), "Estimated saving, % of GPU time"),
        Command("gpuprof run --kernel 'scale a' -o all.ncu-rep -- python train.py", "To collect what is missing:"),
        Heading("Roofline", 2, "roofline"),
        Figure(
            lambda: figure_svg(*names[:3]), "Roofline of all kernels", ("3 kernels drawn.",), "roofline-0", "Roofline."
        ),
        Heading("Kernels", 2, "kernels"),
        Table("Kernels", columns, tuple(rows), anchors, filter=True),
        Heading("Kernel by kernel", 2, "details"),
        *(_section(index, label) for index, label in enumerate(names)),
    )
    return Document("GPU profile: train.ncu-rep", blocks, version="1", data=lambda: "AAAA")


def figure_svg(*names: str) -> str:
    """Return a drawing with one point for each name, as figures make it."""
    marks = []
    for index, name in enumerate(names):
        title = escape(printable(name))
        marks.append(
            f'<g class="point" data-kernel="{index}"><title>{title}: 1.2 TFLOP/s</title><a href="#kernel-{index}">'
            f'<circle class="mark" cx="{100 + 150 * index}" cy="{150 - 30 * index}" r="8" fill="#0072b2"/></a></g>'
        )
    line = '<path d="M40 180 L300 40 L560 40" fill="none" stroke="#d55e00"/>'
    label = '<g><text x="420" y="30" font-size="12" fill="currentColor">FP32 66.9 TFLOP/s</text></g>'
    body = "".join(marks)
    return f'<svg class="figure" viewBox="0 0 600 200" role="group" aria-label="Roofline">{line}{label}{body}</svg>'


def _section(index: int, name: str) -> Fold:
    place = f"line-{index}-41"
    finding = Finding(
        rule="uncoalesced-global", severity="high",
        headline="Uncoalesced global access: loads use 4 of 32 bytes", gain="saves at most 62 % of this kernel",
        remains="next limit: L2, at 86 %", certainty="measured",
        why="The threads of a warp access addresses that are not adjacent, so that few of the bytes moved are used.",
        action="Let consecutive threads access consecutive addresses.",
        advice="Swap the index that uses threadIdx.x, or transpose through shared memory.",
        place=Cell("gather.cu:41", href=place, code=True),
        evidence=(
            Evidence("sectors per request", Cell("32", bar=1.0, mark=0.125), "4", "l1tex__t_sectors.ratio"),
            Evidence("sectors moved", Cell("18 833 533")),
        ),
        anchor=f"finding-{index}-uncoalesced-global",
    )  # fmt: skip
    explained = Finding(
        rule="memory-latency", severity="low", headline="Memory latency: 78 % of warp time", gain="", remains="",
        certainty="inferred", why="Loads take long.", action="", advice="", place=Cell(""),
        explained_by=Cell("explained by uncoalesced-global: fix that first", href=finding.anchor),
        anchor=f"finding-{index}-memory-latency",
    )  # fmt: skip
    units = (Bar("SM", 0.083, "8.3 %"), Bar("L2", 0.86, "86 %", "lts__throughput"), Bar("DRAM", None, "not collected"))
    states = (Bar("Drain", 0.44, "44 %", colour="#a84a00"), Bar("Long Scoreboard", 0.56, "56 %", colour="#d55e00"))
    lines = (
        CodeLine("40", "    for (int i = 0; i < n; ++i) {", 0.05, ("5.0 %", "")),
        CodeLine("41", "        sum += rows[index[i]];", 1.0, ("95 %", "Long Scoreboard 90 %"), place, True),
    )
    blocks: tuple[Block, ...] = (
        Findings((finding, explained)),
        Code("Source, gather.cu", lines, ("samples", "stalls")),
        Facts((("Grid", "128×512, 62.1 waves"), ("Block", "32×8"), ("Registers", "16 a thread")), "Launch"),
        Bars("Throughput", units, "peak"),
        Bars("Warp states", states, stacked=True, note="4.0 % of issue slots used."),
        Fold("Full name", (Note(name),)),
    )
    return Fold(Cell(f"{name} #{index}"), blocks, open=True, anchor=f"kernel-{index}")
