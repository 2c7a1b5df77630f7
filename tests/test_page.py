"""The parts of the page on values made by hand: findings, code, memory path, table, glossary, provenance."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.summary import summarised
from gpuprof.model.recorded import Missing
from gpuprof.model.session import (
    CodeLine,
    DurationSpread,
    Evidence,
    Excerpt,
    Finding,
    Location,
    Occupancy,
    Pipe,
    Remaining,
    Scheduler,
    Session,
    Stall,
    StallShare,
    Throughput,
    Traffic,
)
from gpuprof.model.stalls import stall_name
from gpuprof.present.html import render_html
from gpuprof.present.page.build import Choice, build_page
from gpuprof.present.page.findings import cards
from gpuprof.present.page.memory_path import MemoryPath, memory_path
from gpuprof.present.page.parts import label
from gpuprof.present.page.stalls import STALL_COLOURS, stall_parts
from gpuprof.present.plot import contrast_ratio
from tests.table import each_row
from tests.test_figures import HOSTILE, TWO, kernel, session
from tests.test_html import Outline

UNCOALESCED = Finding(
    rule="uncoalesced-global",
    severity="high",
    confidence="measured",
    headline="Uncoalesced loads: 2 of 4 sectors of each request are used",
    why="Each request moves twice the sectors that it needs.",
    evidence=(
        Evidence("excess_share", 50.0, "%", threshold=10.0, meaning="excess sectors"),
        Evidence("sectors", 4.2e6, "sector", threshold=None, meaning="sectors moved"),
    ),
    advice="Make the access in gather_rows contiguous.",
    location=Location(file="/home/someone/gather.cu", line=41, pc=0x120, sass="LDG.E R2, [R2]", share=0.8),
    gain_kernel=0.31,
    gain_total=0.2,
    gain_kind="bound",
)
GUESS = replace(
    UNCOALESCED, rule="low-occupancy", severity="medium", confidence="guess", headline="Occupancy: 50 % theoretical",
    location=None, gain_kernel=0.12, gain_total=0.1, evidence=(),
)  # fmt: skip
SETTLED = replace(GUESS, rule="dram-bandwidth", severity="info", headline="DRAM: near its roof", gain_kernel=0.0)
SOURCE = Excerpt(
    language="source", file="/home/someone/gather.cu", weight="samples",
    lines=(
        CodeLine(number=40, pc=None, text="    for (int i = 0; i < n; ++i) {", share=0.05, stalls=()),
        CodeLine(
            number=41, pc=None, text="\t    sum += rows[index[i]];", share=0.6,
            stalls=(StallShare("long_scoreboard", 0.9),),
        ),
    ),
)  # fmt: skip
SASS = Excerpt(
    language="sass",
    file="gather.cu",
    weight="samples",
    lines=(CodeLine(number=41, pc=0x120, text="LDG.E R2, [R2]", share=0.6, stalls=()),),
)


@cache
def diagnosed() -> Session:
    """Two kernels: one with all that a page can show, one with a guess."""
    rich = kernel(
        0, {"fp32": 1e9}, {"l1": 1.6e9, "l2": 8e8, "dram": 4e8}, label="gather_rows", duration_s=4e-3,
        findings=(UNCOALESCED, SETTLED), excerpts=(SOURCE, SASS),
        pipes=(Pipe("fma", 0.25, "sm__pipe_fma"), Pipe("tensor", 0.0, "sm__pipe_tensor")),
        scheduler=Scheduler(issue_active=0.25, eligible_warps=0.4, active_warps=6.0, warp_slots=16.0),
        waves=1.5, launches=3, time_total_s=1.2e-2,
        duration_percentiles_s=DurationSpread(min=3e-3, p50=4e-3, p95=5e-3, p99=5e-3, max=5e-3, count=3),
        throughput=(Throughput("sm", 0.25), Throughput("l2", 0.3), Throughput("dram", 0.5)),
        missing=(Missing("x", "not in the report", "collect with ncu --set full"),),
    )  # fmt: skip
    rich = replace(rich, traffic=tuple(replace(moved, hit_rate=0.5) for moved in rich.traffic))
    plain = kernel(1, {"fp32": 3e10}, {"dram": 1e9}, label="softmax", findings=(GUESS,))
    read = session(rich, plain)
    return summarised(read)


@cache
def page() -> str:
    return render_html(diagnosed())


def texts(html: str) -> str:
    return " ".join(Outline(html).texts)


def test_fix_first_has_gain_kernel_and_confidence_and_leads_to_the_card() -> None:
    built = build_page(diagnosed(), Choice())
    assert texts(page()).index(built.verdict) < texts(page()).index(built.context[0])
    first, second = built.fixes
    assert [line.rule for line in built.fixes] == ["uncoalesced global", "low occupancy"]
    assert (first.gain.text, first.gain.percent, first.of) == ("≤ 20 %", "20", "of the run")
    assert (first.kernels.text, first.confidence, first.where) == ("#0 gather_rows", "measured", "gather.cu:41")
    assert UNCOALESCED.advice.startswith(first.action) and f'id="{first.href[1:]}"' in page()
    # 10 % of the run in a kernel that takes 8 %, of which 12 % go: 0.92 % after the first. A guess has no bar.
    assert second.doubt and "0.92 %" in second.limits
    assert (second.gain.text, second.gain.percent) == ("≤ 10 %", None)
    (alone,) = build_page(summarised(session(kernel(0, findings=(GUESS,)))), Choice()).fixes
    assert alone.doubt and alone.gain.percent is None


def test_sections_come_for_kernels_of_fix_first_beyond_top() -> None:
    many = [kernel(number, {"fp32": 1e9}, {"dram": 1e9}, duration_s=1e-3 - number * 1e-5) for number in range(20)]
    last = replace(many[-1], findings=(UNCOALESCED,))
    built = build_page(summarised(session(*many[:-1], last)), Choice(top=2))
    assert [item.id for item in built.sections] == [0, 1, 19]
    assert built.sections_left_out is not None and "17 more" in built.sections_left_out


def test_a_card_says_evidence_gain_and_where() -> None:
    card = next(cards(diagnosed().kernels[0], {("/home/someone/gather.cu", 41): "line-0-0-41"}))
    assert card.severity == "high" and re.findall(r"\d+ %", card.gain) == ["31 %", "20 %"]
    assert card.where.startswith("gather.cu:41, 80 %") and card.where_href == "#line-0-0-41"
    percent, count = card.evidence
    assert (percent.value, percent.threshold, percent.percent, percent.mark) == ("50 %", "10 %", "50", "10")
    assert (count.meaning, count.metric, count.value) == ("sectors moved", "sectors", "4\u202f200\u202f000 sectors")
    assert (count.threshold, count.percent, count.mark) == ("", None, None)
    (twice,) = summarised(session(kernel(0, findings=(UNCOALESCED, UNCOALESCED)))).kernels
    assert [card.id for card in cards(twice, {})] == ["finding-0-uncoalesced-global", "finding-0-uncoalesced-global-2"]


def test_only_a_bound_is_marked_as_at_most() -> None:
    assert "≤ 20 %" in texts(page())
    held = replace(UNCOALESCED, gain_kind="fixed-work", held="the same instructions")
    said = texts(render_html(summarised(session(kernel(0, findings=(held,))))))
    assert "the same instructions" in said
    assert "~ 20 %" in said and "≤" not in said.split("Fix first")[2].split("Roofline")[0]


def test_a_card_says_what_remains_and_an_explained_one_leads_to_its_cause() -> None:
    remains = (Remaining("dram", 0.62), Remaining("issue", 0.3))
    cause = replace(UNCOALESCED, id="0.uncoalesced-global", remains=remains)
    symptom = replace(GUESS, id="0.memory-latency", rule="memory-latency", severity="info", cause=cause.id)
    read = summarised(session(kernel(0, findings=(cause, symptom))))
    first, second = cards(read.kernels[0], {})
    assert "DRAM" in first.remains and "62 %" in first.remains
    assert (first.cause, first.cause_href) == ("", None)
    assert "#0 uncoalesced-global" in second.cause
    assert (second.cause_href, second.remains) == (f"#{first.id}", "")
    html = render_html(read)
    assert html.count('class="card info explained"') == 1 and Outline(html).open == []


def test_what_is_unknown_and_the_command_that_collects_it_can_be_copied() -> None:
    command = "ncu --set full -o again ./app 5 s '<b>'"
    read = summarised(session(kernel(0, findings=(UNCOALESCED,))))
    assert read.verdict is not None
    told = replace(read.verdict, unknown="UNKNOWN.", command=command)
    html = render_html(replace(read, verdict=told))
    assert "UNKNOWN." in texts(html)
    (written,) = re.findall(r'<code id="command">(.*?)</code>', html)
    assert unescape(re.sub("</?span>", "", written)) == command
    assert '<code id="command">' not in render_html(replace(read, verdict=replace(told, unknown=None)))


def test_ids_are_unique_and_links_lead_to_lines_of_code_and_rows() -> None:
    outline = Outline(page())
    assert {"#line-0-0-41", "#row-0", "#row-1"} <= set(outline.links)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert [value for tag, name, value in outline.attributes if (tag, name) == ("a", "data-kernel")] == ["0", "1"]


def test_code_keeps_its_lines_heat_and_stalls_and_loses_common_indentation() -> None:
    source, sass = build_page(diagnosed(), Choice()).sections[0].code
    assert [(line.number, line.share, line.heat) for line in source.lines] == [
        ("40", "5.0 %", "0.08"), ("41", "60 %", "1.00"),
    ]  # fmt: skip
    assert source.lines[0].text.startswith("for (int i")
    assert source.lines[1].text == "    sum += rows[index[i]];"
    assert source.lines[1].stalls[0].text == f"{stall_name('long_scoreboard')} 90 %"
    assert "gather.cu" in source.title and "gather.cu" in sass.title and sass.lines[0].number == "0x120"


def test_memory_path_widens_its_arrows_by_bytes() -> None:
    path = memory_path(diagnosed().kernels[0])
    assert path is not None
    assert [_height(stream.outline) for stream in path.streams] == pytest.approx([34.0, 17.0, 8.5])
    assert [stream.above for stream in path.streams] == ["1.60 GB", "800 MB", "400 MB"]
    assert [station.name for station in path.stations] == ["SM", "L1", "L2", "DRAM"]
    assert [line.partition("%")[0].split()[-1] for line in path.stations[2].lines] == ["50", "30"]
    assert "L2 to DRAM: 400 MB, 100 GB/s" in path.description


def _height(outline: str | None) -> float:
    assert outline is not None
    heights = [float(corner.split(",")[1]) for corner in outline.split()]
    return heights[7] - heights[2]


def test_memory_path_says_what_was_not_collected_and_draws_rates_where_bytes_are_unknown() -> None:
    assert memory_path(kernel(0)) is None
    path = _path_of(
        Traffic("l2", None, 2e9, definition="x", basis="counted"),
        Traffic("dram", None, 1e9, definition="x", basis="counted"),
    )
    assert path.streams[0].outline is None and path.streams[0].above == "not collected"
    assert [stream.below for stream in path.streams[1:]] == ["2.00 GB/s", "1.00 GB/s"]
    assert "bytes per second" in path.widths and path.stations[1].lines == ("no hit rate",)


def _path_of(*traffic: Traffic, busy: float | None = None) -> MemoryPath:
    throughput = (Throughput("dram", busy),) if busy is not None else ()
    path = memory_path(replace(kernel(0), traffic=traffic, throughput=throughput))
    assert path is not None
    return path


def test_the_only_arrow_of_a_memory_path_is_as_wide_as_its_level_is_busy() -> None:
    only = Traffic("dram", 1e8, 1e9, definition="x", basis="counted")
    for busy, height in ((0.5, 17.0), (0.0003, 2.0), (None, 2.0)):
        assert _height(_path_of(only, busy=busy).streams[2].outline) == pytest.approx(height)
    assert "not to scale" in _path_of(only).widths and "not to scale" not in _path_of(only, busy=0.5).widths
    nothing = replace(only, bytes=0.0, bytes_per_s=0.0)
    assert _path_of(nothing).streams[2].outline is not None


def test_memory_path_marks_estimated_bytes() -> None:
    path = _path_of(
        Traffic("l1", 1e8, None, definition="loads only: l1tex__a × 128 B", basis="counted"),
        Traffic("l2", 5e8, None, definition="all clients of L2: lts__t_bytes", basis="counted"),
        Traffic("dram", 1e8, None, definition="gpu__dram_throughput × peak", basis="estimated"),
    )
    assert [stream.mark for stream in path.streams] == ["", "", "estimated"]
    assert "loads only" in path.counted and "lts__t_bytes" not in path.counted
    assert "L2 to DRAM: 100 MB, estimated" in path.description


def test_stalls_are_written_and_sum_to_the_whole_bar() -> None:
    states = (
        Stall("long_scoreboard", 0.6, None, family="counter"), Stall("selected", 0.37, None, family="counter"),
        Stall("drain", 0.019, None, family="counter"), Stall("new_reason", 0.011, None, family="counter"),
    )  # fmt: skip
    parts = list(stall_parts(kernel(0, stalls=states)))
    assert [part.name for part in parts[:2]] == [stall_name("long_scoreboard"), stall_name("selected")]
    assert [part.is_stall for part in parts] == [True, False, True]
    assert sum(float(part.width) for part in parts) == pytest.approx(100)
    assert all(contrast_ratio(part.ink, part.colour) >= 4.5 for part in parts)
    for colour in STALL_COLOURS.values():
        assert max(contrast_ratio(ink, colour) for ink in ("#000000", "#ffffff")) >= 4.5


def test_facts_of_a_group_name_launches_and_spread() -> None:
    section = build_page(diagnosed(), Choice()).sections[0]
    facts = {fact.name: fact.value for fact in section.facts}
    assert facts["Launches"] == "3 launches" and facts["Grid"] == "108, 1.5 waves"
    assert re.findall(r"[\d.]+ ms", facts["Duration"]) == ["4.00 ms", "3.00 ms", "5.00 ms", "5.00 ms"]
    assert [(meter.name, meter.amount.text) for meter in section.pipes] == [("FMA", "25 %")]
    assert section.idle_pipes == "Tensor"
    assert re.findall(r"[\d.]+\d", section.issue) == ["6.00", "16", "0.400", "25"]


def test_glossary_has_the_terms_that_occur_and_no_others() -> None:
    names = {term.name for term in build_page(diagnosed(), Choice()).terms}
    stalls = {stall_name("long_scoreboard"), stall_name("selected")}
    assert {"roofline", "occupancy", "wave", "sector", "hit rate"} | stalls <= names
    assert not {"bank conflict", "spill", stall_name("barrier"), stall_name("gmma")} & names
    assert "wave" not in {term.name for term in build_page(TWO, Choice()).terms}


def test_provenance_is_enough_to_repeat_the_run() -> None:
    said = texts(page())
    for fact in ("ab" * 32, "550.54", "ncu --set full ./app", "clock control base", "cache control all", "by hand",
                 "2023-11-14 22:13 UTC", "spec test-gpu"):  # fmt: skip
        assert fact in said, fact


def test_table_names_the_first_finding_and_links_to_its_card() -> None:
    finding = build_page(diagnosed(), Choice(top=1)).rows[0].finding
    assert finding is not None
    assert (finding.name, finding.gain) == ("uncoalesced global", "≤ 20 %")
    assert finding.href == "#finding-0-uncoalesced-global"
    assert build_page(TWO, Choice()).rows[0].finding is None


def test_a_page_of_a_single_kernel_and_of_none_is_whole() -> None:
    for read in (session(kernel(0, {"fp32": 1e9}, {"dram": 1e9})), session()):
        outline = Outline(render_html(read))
        assert outline.open == []
        assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)


def test_hostile_findings_and_code_are_text() -> None:
    finding = replace(
        UNCOALESCED, rule="small-grid", headline=HOSTILE, why=HOSTILE, action=HOSTILE, advice=HOSTILE, held=HOSTILE,
        gain_kind="fixed-work",
        evidence=(Evidence(HOSTILE, 1.0, HOSTILE, threshold=1.0, meaning=HOSTILE),),
        location=Location(file=HOSTILE, line=1, pc=None, sass=HOSTILE),
    )  # fmt: skip
    code = Excerpt(
        language="source",
        file=HOSTILE,
        weight="samples",
        lines=(CodeLine(number=1, pc=None, text=HOSTILE, share=1.0, stalls=(StallShare("wait", 1.0),)),),
    )
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=HOSTILE, findings=(finding,), excerpts=(code,)))
    read = summarised(replace(read, sources=(replace(read.sources[0], command=HOSTILE, file=HOSTILE),)))
    assert read.verdict is not None
    told = replace(read.verdict, notes=(HOSTILE,), unknown=HOSTILE, command=HOSTILE)
    html = render_html(replace(read, verdict=told), title=HOSTILE)
    outline = Outline(html)
    assert outline.open == [] and "img" not in outline.tags and outline.tags.count("script") == 2
    assert "\x1b" not in html and "\u202e" not in html


def test_columns_that_no_row_fills_are_left_out() -> None:
    def heads(read: Session) -> list[str]:
        table = render_html(read).split('<table class="kernels"')[1].split("</thead>")[0]
        return Outline(f"<table>{table.partition('>')[2]}</thead></table>").texts

    bare = [kernel(number, throughput=(), stalls=(), occupancy=Occupancy(None, None, ())) for number in range(2)]
    assert heads(session(*bare)) == ["#", "Kernel", "Time", "Share"]
    untimed = [replace(item, duration_s=None, time_total_s=None) for item in bare]
    assert heads(session(*untimed)) == ["#", "Kernel"]
    counters = ["Busiest", "Roofline", "Occupancy", "Main stall"]
    assert heads(TWO) == ["#", "Kernel", "Time", "Share", *counters]
    assert heads(diagnosed()) == ["#", "Kernel", "Launches", "Time", "Share", *counters, "First finding"]


@each_row(
    ("name", "cut"),
    [
        # 119 characters stay at most, a third of them or more of the end.
        ("a" * 119, "a" * 119),
        ("x" * 300, f"{'x' * 80}…{'x' * 39}"),
        # The head of 80 ends behind its 13th word and leaves 2 to the tail, which begins with a word, too.
        ("alpha_" * 50 + "omega", f"{'alpha_' * 12}alpha…{'alpha_' * 6}omega"),
        # The head ends before a word of 40 letters, and the tail may be longer by what that leaves free.
        ("alpha_" * 10 + "x" * 40 + "_beta" * 50, f"{'alpha_' * 9}alpha…beta{'_beta' * 11}"),
    ],
)
def test_long_names_are_cut_between_words(name: str, cut: str) -> None:
    assert label(name).text == cut and len(cut) <= 120
