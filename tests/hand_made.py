"""Hand-made kernels and findings for what presents them: every value is set, none is computed."""

from __future__ import annotations

from dataclasses import replace

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
    Ranked,
    Scheduler,
    Session,
    Source,
    Stall,
    StallShare,
    Throughput,
    Traffic,
)

HOSTILE = "evil</script><img src=x onerror=alert(1)>[red]|`$(x)`\x1b[31m\u202e\n=cmd & http://x.example '\""
"""What a name can hold: HTML, rich's and Markdown's markup, control and right-to-left characters, a formula, a link."""


def finding(rule: str = "uncoalesced-global", gain: float | None = 0.3, **changes: object) -> Finding:
    made = Finding(
        rule=rule,
        severity="high",
        confidence="measured",
        headline=f"headline of {rule}",
        why="Half of each sector is not used.",
        evidence=(Evidence("sectors_per_request", 8.0, "sector", 4.0, "sectors of a request"),),
        advice="Let consecutive threads read consecutive words.",
        location=Location("src/gather.cu", 41, 0x100, "LDG.E R2, [R4]", 0.62),
        gain_kernel=gain,
        gain_total=gain / 2 if gain is not None else None,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def kernel(number: int = 0, *findings: Finding, **changes: object) -> KernelProfile:
    """A kernel with a full set of figures, of which `changes` replace some."""
    made = KernelProfile(
        id=number, source=0, device=0, rank=None, process=1, stream=7, name="gather_rows",
        demangled=f"void gather_rows<{number}>(float *)", label="gather_rows", ranges=(), grid=(1024, 1, 1),
        block=(250, 1, 1), registers_per_thread=40, shared_memory_per_block=2048, launches=1, duration_s=2e-3,
        duration_percentiles_s=None, duration_source="counters", time_total_s=2e-3, time_share=0.5, sm_clock_hz=1.4e9,
        throttled=None, work=(),
        traffic=(
            Traffic("l1", 1000.0, 1e12, "l1", "counted", 0.25), Traffic("l2", 750.0, 7.5e11, "l2", "counted", 0.5),
            Traffic("dram", 300.0, 3e11, "dram", "counted"),
        ),
        roofline=(),
        throughput=(
            Throughput("sm", 0.2), Throughput("memory", 0.45), Throughput("dram", 0.45), Throughput("l2", 0.3),
        ),
        occupancy=Occupancy(0.75, 0.6, ("registers",)),
        stalls=(
            Stall("long_scoreboard", 0.5, 10.0, "counter"), Stall("wait", 0.2, 4.0, "counter"),
            Stall("selected", 0.1, 2.0, "counter"), Stall("barrier", 0.15, 3.0, "counter"),
            Stall("not_selected", 0.04, 0.8, "counter"), Stall("misc", 0.01, 0.2, "counter"),
        ),
        findings=findings, missing=(), waves=2.5, scheduler=Scheduler(0.3, 0.5, 9.6, 16.0),
        pipes=(Pipe("fma", 0.1, "fma"), Pipe("lsu", 0.4, "lsu"), Pipe("alu", 0.2, "alu"), Pipe("xu", 0.05, "xu")),
        excerpts=(
            Excerpt("source", "src/gather.cu", "samples", (
                CodeLine(40, None, "int j = index[i];", 0.1, (StallShare("wait", 1.0),)),
                CodeLine(41, None, "out[i] = in[j];", 0.6, (StallShare("long_scoreboard", 0.8),)),
                CodeLine(42, None, "__syncthreads();", 0.2, (StallShare("barrier", 0.9),)),
            )),
        ),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def session(*kernels: KernelProfile) -> Session:
    """A session of one report on one GPU, its findings ranked by what they can gain."""
    findings = [(kernel, finding) for kernel in kernels for finding in kernel.findings if finding.severity != "info"]
    findings.sort(key=lambda pair: -(pair[1].gain_total or 0.0))
    return Session(
        schema_version=1,
        gpuprof_version="0",
        sources=(Source("hand.ncu-rep", "0" * 64, "ncu-rep", "ncu", "2024.1.1.0", "base", "all", None),),
        devices=(Device(0, "NVIDIA A100 80GB PCIe", "8.0", 108, "a100-80gb-pcie"),),
        ceilings=(),
        kernels=kernels,
        ranking=tuple(Ranked(kernel.id, finding.rule, finding.gain_total) for kernel, finding in findings),
    )
