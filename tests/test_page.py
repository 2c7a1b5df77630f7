"""The parts of the page on values made by hand: findings, code, table, glossary, provenance."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from gpuprof.diagnose.ranking import numbered
from gpuprof.model.recorded import Missing
from gpuprof.model.session import (
    CodeLine,
    DurationSpread,
    Evidence,
    Excerpt,
    Finding,
    Location,
    Pipe,
    Scheduler,
    Session,
    StallShare,
    Throughput,
)
from gpuprof.views.profile import session_page
from tests.outline import Outline
from tests.test_figures import HOSTILE, kernel, session
from tests.worded import summarised

UNCOALESCED = Finding(
    rule="uncoalesced-global", severity="high", confidence="measured",
    headline="Uncoalesced loads: 2 of 4 sectors of each request are used",
    why="Each request moves twice the sectors that it needs.",
    evidence=(
        Evidence("excess_share", 50.0, "%", threshold=10.0, meaning="excess sectors"),
        Evidence("sectors", 4.2e6, "sector", threshold=None, meaning="sectors moved"),
    ),
    advice="Make the access in gather_rows contiguous.",
    place=Location(file="/home/someone/gather.cu", line=41, pc=0x120, sass="LDG.E R2, [R2]", share=0.8),
    gain_kernel=0.31, gain_total=0.2, gain_kind="bound",
)  # fmt: skip
GUESS = replace(
    UNCOALESCED, rule="low-occupancy", severity="medium", confidence="guess", headline="Occupancy: 50 % theoretical",
    place=None, gain_kernel=0.12, gain_total=0.1, evidence=(),
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
    language="sass", file="gather.cu", weight="samples",
    lines=(CodeLine(number=41, pc=0x120, text="LDG.E R2, [R2]", share=0.6, stalls=()),),
)  # fmt: skip


@cache
def diagnosed() -> Session:
    """Two kernels: one with all that a page can show, one with a guess."""
    rich = kernel(
        0, {"fp32": 1e9}, {"l1": 1.6e9, "l2": 8e8, "dram": 4e8}, label="gather_rows", duration_s=4e-3,
        findings=tuple(numbered((UNCOALESCED, SETTLED), 0)), excerpts=(SOURCE, SASS),
        pipes=(Pipe("fma", 0.25, "sm__pipe_fma"), Pipe("tensor", 0.0, "sm__pipe_tensor")),
        scheduler=Scheduler(issue_active=0.25, eligible_warps=0.4, active_warps=6.0, warp_slots=16.0),
        waves=1.5, launches=3, time_total_s=1.2e-2,
        duration_percentiles_s=DurationSpread(min=3e-3, p50=4e-3, p95=5e-3, p99=5e-3, max=5e-3, count=3),
        throughput=(Throughput("sm", 0.25), Throughput("l2", 0.3), Throughput("dram", 0.5)),
        missing=(Missing("x", "not in the report", "collect with ncu --set full"),),
    )  # fmt: skip
    rich = replace(rich, traffic=tuple(replace(moved, hit_rate=0.5) for moved in rich.traffic))
    plain = kernel(1, {"fp32": 3e10}, {"dram": 1e9}, label="softmax", findings=tuple(numbered((GUESS,), 1)))
    read = session(rich, plain)
    return summarised(read)


@cache
def page() -> str:
    return session_page(diagnosed())


def texts(html: str) -> str:
    return " ".join(Outline(html).texts)


def test_ids_are_unique_and_links_lead_to_lines_of_code_and_rows() -> None:
    outline = Outline(page())
    assert {"#line-0-gather.cu-41", "#kernel-0", "#kernel-1"} <= set(outline.links)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert [value for tag, name, value in outline.attributes if (tag, name) == ("g", "data-kernel")] == ["0", "1"]


def test_hostile_findings_and_code_are_text() -> None:
    finding = replace(
        UNCOALESCED, rule="small-grid", headline=HOSTILE, why=HOSTILE, action=HOSTILE, advice=HOSTILE, held=HOSTILE,
        gain_kind="conditional",
        evidence=(Evidence(HOSTILE, 1.0, HOSTILE, threshold=1.0, meaning=HOSTILE),),
        place=Location(file=HOSTILE, line=1, pc=None, sass=HOSTILE),
    )  # fmt: skip
    code = Excerpt(
        language="source", file=HOSTILE, weight="samples",
        lines=(CodeLine(number=1, pc=None, text=HOSTILE, share=1.0, stalls=(StallShare("wait", 1.0),)),),
    )  # fmt: skip
    read = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=HOSTILE, findings=(finding,), excerpts=(code,)))
    read = summarised(replace(read, sources=(replace(read.sources[0], command=HOSTILE, file=HOSTILE),)))
    assert read.verdict is not None
    told = replace(read.verdict, notes=(HOSTILE,), unknown=HOSTILE, command=HOSTILE)
    html = session_page(replace(read, verdict=told), title=HOSTILE)
    outline = Outline(html)
    assert outline.open == [] and "img" not in outline.tags and outline.tags.count("script") == 2
    assert "\x1b" not in html and "\u202e" not in html
