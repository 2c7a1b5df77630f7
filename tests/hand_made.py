"""Hand-made kernels and findings for what presents them: every value is set, none is computed."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.ranking import numbered
from gpuprof.model.session import (
    CodeLine,
    Device,
    Evidence,
    Excerpt,
    Finding,
    KernelProfile,
    Location,
    Occupancy,
    Pipe,
    Scheduler,
    Session,
    Source,
    Stall,
    StallShare,
    Throughput,
    Traffic,
)
from tests.worded import summarised

HOSTILE = "evil</script><img src=x onerror=alert(1)>[red]|`$(x)`\x1b[31m\u202e\n=cmd & http://x.example '\""
"""What a name can hold: HTML, rich's and Markdown's markup, control and right-to-left characters, a formula, a link."""


def finding(rule: str = "uncoalesced-global", gain: float | None = 0.3, **changes: object) -> Finding:
    made = Finding(
        rule=rule,
        severity="high",
        confidence="measured",
        headline=f"headline of {rule}",
        why="Half of each sector is not used.",
        evidence=(Evidence("sectors_per_request", 8.0, "sector", threshold=4.0, meaning="sectors of a request"),),
        action="Let consecutive threads read consecutive words",
        advice="Let consecutive threads read consecutive words.",
        place=Location(file="src/gather.cu", line=41, pc=0x100, sass="LDG.E R2, [R4]", share=0.62),
        gain_kernel=gain,
        gain_total=gain / 2 if gain is not None else None,
        gain_kind="bound" if gain is not None else None,
    )
    return replace(made, **changes)


def kernel(number: int = 0, *findings: Finding, **changes: object) -> KernelProfile:
    """A kernel with a full set of figures, of which `changes` replace some."""
    made = KernelProfile(
        id=number, source=0, device=0, rank=None, process=1, stream=7, name="gather_rows",
        demangled=f"void gather_rows<{number}>(float *)", label="gather_rows", ranges=(), grid=(1024, 1, 1),
        block=(250, 1, 1), registers_per_thread=40, shared_memory_per_block=2048, launches=1, duration_s=2e-3,
        duration_percentiles_s=None, duration_source="counters", time_total_s=2e-3, time_share=0.5, sm_clock_hz=1.4e9,
        throttled=None, work=(),
        traffic=(
            Traffic("l1", 1000.0, 1e12, definition="l1", basis="counted", hit_rate=0.25),
            Traffic("l2", 750.0, 7.5e11, definition="l2", basis="counted", hit_rate=0.5),
            Traffic("dram", 300.0, 3e11, definition="dram", basis="counted"),
        ),
        roofline=(),
        throughput=(
            Throughput("sm", 0.2), Throughput("memory", 0.45), Throughput("dram", 0.45), Throughput("l2", 0.3),
        ),
        occupancy=Occupancy(0.75, 0.6, ("registers",)),
        stalls=(
            Stall("long_scoreboard", 0.5, 10.0, family="counter"), Stall("wait", 0.2, 4.0, family="counter"),
            Stall("selected", 0.1, 2.0, family="counter"), Stall("barrier", 0.15, 3.0, family="counter"),
            Stall("not_selected", 0.04, 0.8, family="counter"), Stall("misc", 0.01, 0.2, family="counter"),
        ),
        findings=findings, missing=(), waves=2.5,
        scheduler=Scheduler(issue_active=0.3, eligible_warps=0.5, active_warps=9.6, warp_slots=16.0),
        pipes=(Pipe("fma", 0.1, "fma"), Pipe("lsu", 0.4, "lsu"), Pipe("alu", 0.2, "alu"), Pipe("xu", 0.05, "xu")),
        excerpts=(
            Excerpt(language="source", file="src/gather.cu", weight="samples", lines=(
                CodeLine(number=40, pc=None, text="int j = index[i];", share=0.1, stalls=(StallShare("wait", 1.0),)),
                CodeLine(
                    number=41, pc=None, text="out[i] = in[j];", share=0.6, stalls=(StallShare("long_scoreboard", 0.8),),
                ),
                CodeLine(number=42, pc=None, text="__syncthreads();", share=0.2, stalls=(StallShare("barrier", 0.9),)),
            )),
        ),
    )  # fmt: skip
    made = replace(made, **changes)
    return made if all(item.id for item in made.findings) else with_ids(made)


def with_ids(made: KernelProfile) -> KernelProfile:
    """Return a kernel whose findings have ids as the diagnosis gives them."""
    return replace(made, findings=tuple(numbered(made.findings, made.id)))


def session(*kernels: KernelProfile) -> Session:
    """A session of one report on one GPU, judged as the product does."""
    made = Session(
        schema_version=3,
        gpuprof_version="0",
        sources=(
            Source(
                file="hand.ncu-rep",
                sha256="0" * 64,
                kind="ncu-rep",
                tool="ncu",
                tool_version="2024.1.1.0",
                clock_control="base",
                cache_control="all",
                command=None,
            ),
        ),
        devices=(
            Device(id=0, name="NVIDIA A100 80GB PCIe", compute_capability="8.0", sm_count=108, spec="a100-80gb-pcie"),
        ),
        ceilings=(),
        kernels=kernels,
    )
    return summarised(made)
