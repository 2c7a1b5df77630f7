"""Rules on what a kernel runs into: the bandwidth of a memory level, or traffic over the host link."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, format_si

BUSY = percent(
    "busy", 60.0, "below it neither side is the limit: NVIDIA's speed-of-light rule calls such a kernel latency-bound"
)
NEAR_ROOF = percent("near its roof", 80.0, "NVIDIA's speed-of-light rule calls a unit well used from here on")
MANY_WAVEFRONTS = Threshold(
    "passes a request",
    4.5,
    "wavefront",
    reason="a coalesced access takes one at 4 bytes a thread, two at 8 and four at 16",
)
HOST_SHARE = percent("host share", 10.0, "the host link is about ten times slower than DRAM or more: a tenth is felt")

_MORE_IN_FLIGHT = (
    "Keep more bytes in flight: more and wider loads before the first use, cp.async. Fewer bytes can gain more than "
    "this bound."
)
_NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1"}
_WARP = 32
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"

_ADVICE = {
    "dram": (
        "Move fewer bytes: fuse this kernel with the one that makes or uses its data, keep what is used twice in "
        "shared memory or registers, use a narrower type (BF16, FP8, INT8), and do not write what can be computed "
        "again."
    ),
    "l2": (
        "Serve more from L1 and shared memory: larger tiles per block, reuse in registers, and an order of blocks "
        "(Triton: a grouped program order) in which neighbours share their inputs."
    ),
    "l1": (
        "Use fewer and wider accesses: 16 bytes a thread (float4; in Triton contiguous blocks), values kept in "
        "registers across iterations (register tiling), and loop-invariant loads moved out of the loop."
    ),
    "shared": (
        "Read shared memory less often: compute a larger tile per thread so that each value read serves more "
        "multiply-adds, use 16-byte loads (ld.shared.v4, ldmatrix), and keep operands in registers between steps."
    ),
}


def _bandwidth_verdict(case: Case, level: str, fraction: float) -> RuleVerdict:
    """Say that a memory level is the limit.

    Near DRAM's roof that is a statement and no defect. Traffic at L2 and L1 can be saved by reuse closer to the
    arithmetic, so their bound is what remains: DRAM and the floating-point work.
    """
    near = 100 * fraction >= NEAR_ROOF.value
    name = _NAMES[level]
    rate = next((moved.bytes_per_s for moved in case.kernel.traffic if moved.level == level), None)
    amount = f"{format_si(rate, 'B/s')}, " if rate is not None else ""
    near_text = "; it is near its roof" if near else ""
    return RuleVerdict(
        headline=f"{name} bandwidth: {amount}{format_percent(fraction)} of {name}'s peak{near_text}",
        why=(
            f"Fewer bytes through {name} make the kernel faster."
            if near or level != "dram"
            else f"{name} could carry more: its queue is not kept full. The bound is for the same bytes."
        ),
        advice=_ADVICE[level] if near or level != "dram" else f"{_MORE_IN_FLIGHT} {_ADVICE[level]}",
        confidence="measured" if level == "dram" else "inferred",
        gain=1.0 - fraction if level == "dram" else reuse_gain(case, level),
        evidence=(
            *_throughput_evidence(case, level, fraction),
            *((Evidence("", rate, "B/s", threshold=None, meaning=f"{name} rate"),) if rate is not None else ()),
            *case.stall_evidence("long_scoreboard", None),
        ),
        location=case.place_of_stall("long_scoreboard", "lg_throttle"),
        settled=near and level == "dram",
    )


def reuse_gain(case: Case, level: str) -> float:
    """Bound what data reuse above a level gains: the levels below it and the floating-point work stay as they are."""
    below = ("dram",) if level == "l2" else ("dram", "l2")
    rest = [case.utilisation.get(unit, 0.0) for unit in below]
    return 1.0 - max(*rest, case.arithmetic_fraction)


def _throughput_evidence(case: Case, level: str, fraction: float) -> tuple[Evidence, ...]:
    return (
        Evidence(case.light_metric(level), 100 * fraction, "%", threshold=BUSY.value, meaning=f"{_NAMES[level]} busy"),
    )


def _is_limit(case: Case, level: str) -> bool:
    """Tell whether a level is busy; DRAM's bandwidth cannot be had elsewhere, of the others only the busiest speaks."""
    levels = {"dram": case.utilisation.get("dram"), "l2": case.utilisation.get("l2"), "l1": l1_fraction(case)}
    known = {name: value for name, value in levels.items() if value is not None}
    if level not in known or 100 * known[level] < BUSY.value:
        return False
    return level == "dram" or known[level] >= max(known.values())


def _dram(case: Case) -> Iterator[RuleVerdict]:
    if _is_limit(case, "dram"):
        yield _bandwidth_verdict(case, "dram", case.utilisation["dram"])


def _l2(case: Case) -> Iterator[RuleVerdict]:
    if _is_limit(case, "l2"):
        yield _bandwidth_verdict(case, "l2", case.utilisation["l2"])


def l1_fraction(case: Case) -> float | None:
    """Return how busy L1 and the load/store unit before it are, over all elapsed cycles.

    The basic set has no elapsed L1 throughput; memory throughput that neither L2 nor DRAM explains is L1's.
    """
    busiest = _busiest_of_l1(case)
    return min(1.0, busiest[1]) if busiest is not None else None


def _busiest_of_l1(case: Case) -> tuple[str, float] | None:
    """Return the metric that shows L1 or its load/store unit busiest, and the fraction."""
    lsu = next((pipe for pipe in case.kernel.pipes if pipe.name == "lsu"), None)
    parts = {
        case.light_metric("l1"): case.utilisation.get("l1"),
        _WAVEFRONTS: _fraction(case, _WAVEFRONTS),
        REQUESTS: _fraction(case, REQUESTS),
        lsu.metric if lsu is not None else "": lsu.fraction if lsu is not None else None,
    }
    known = {name: part for name, part in parts.items() if part is not None}
    if known:
        return max(known.items(), key=lambda item: item[1])
    memory, units = case.utilisation.get("memory"), [case.utilisation.get(unit, 0.0) for unit in ("dram", "l2")]
    return (case.light_metric("memory"), memory) if memory is not None and memory > 1.05 * max(units) else None


def _fraction(case: Case, name: str) -> float | None:
    percent = case.number(name)
    return percent / 100 if percent is not None else None


def _l1(case: Case) -> Iterator[RuleVerdict]:
    busiest = _busiest_of_l1(case)
    if busiest is None or 100 * busiest[1] < BUSY.value:
        return
    fraction = min(1.0, busiest[1])
    if fraction < max(case.utilisation.get("dram", 0.0), case.utilisation.get("l2", 0.0)):
        return
    shared = case.number(_SHARED)
    if shared is not None and shared >= BUSY.value:
        return
    uses_shared = bool(case.kernel.shared_memory_per_block)
    advice = _ADVICE["shared"] if uses_shared else _ADVICE["l1"]
    per_request = wavefronts_per_request(case)
    what = "loads and stores, global and shared together" if uses_shared else "loads and stores"
    headline, why = f"L1 bandwidth: {format_percent(fraction)} busy with {what}", "L1 is the busiest unit."
    if per_request is not None and per_request >= MANY_WAVEFRONTS.value:
        if case.kernel.shared_memory_per_block == 0:
            # `uncoalesced-global` says the same and its cause.
            return
        headline += f", at {per_request:.2g} passes a request"
        why = (
            "A request of a warp takes one to four passes through L1 by its width; more come from uncoalesced "
            f"access or bank conflicts. {_TELL_APART if uses_shared else ''}"
        ).rstrip()
        advice = _FEWER_PASSES
    elif per_request is not None:
        headline += _passes_text(per_request)
        why = "Each access is efficient, but there are very many of them for the arithmetic that they feed."
    yield RuleVerdict(
        headline=headline,
        why=why,
        advice=advice,
        confidence="inferred",
        gain=reuse_gain(case, "l1"),
        evidence=(
            Evidence(
                busiest[0], 100 * fraction, "%", threshold=BUSY.value, meaning=_L1_WORDS.get(busiest[0], "L1 busy")
            ),
            *(
                item
                for name, meaning in _L1_WORDS.items()
                if name != busiest[0]
                for item in case.metric(name, meaning, "%")
            ),
        ),
        location=case.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


_L1_WORDS = {_WAVEFRONTS: "L1 data pipe busy", REQUESTS: "L1 requests, of their peak"}


def _passes_text(per_request: float) -> str:
    return ", mostly one pass a request" if per_request < _ONE_PASS else f", at {per_request:.2g} passes a request"


_ONE_PASS = 1.5
_FEWER_PASSES = (
    "Let consecutive threads touch consecutive addresses in global memory, and pad or swizzle arrays in shared "
    "memory so that the threads of a warp fall on different banks."
)
_TELL_APART = "The metrics of this report do not tell which; ncu with --set full does."


def wavefronts_per_request(case: Case) -> float | None:
    """Return passes through L1's data pipe per request; None where they or the GPU's rate of requests are not known.

    The pipe's peak is a pass a cycle; that of requests is a warp a cycle with 32 load/store units an SM, half with 16.
    """
    wavefronts, requests = case.number(_WAVEFRONTS), case.number(REQUESTS)
    lanes = case.recorded.hardware.arch.operations.get("load-store")
    if wavefronts is None or not requests or lanes is None:
        return None
    return wavefronts / requests * _WARP / lanes.value


def _shared(case: Case) -> Iterator[RuleVerdict]:
    shared = case.number(_SHARED)
    if shared is None or shared < BUSY.value:
        return
    fraction = min(1.0, shared / 100)
    yield RuleVerdict(
        headline=f"Shared-memory bandwidth: {format_percent(fraction)} of its peak",
        why="Shared memory serves one wavefront of 128 bytes per SM and cycle; the warps wait for it.",
        advice=_ADVICE["shared"],
        confidence="inferred",
        gain=reuse_gain(case, "l1"),
        evidence=(
            *case.metric(_SHARED, "shared-memory data pipe busy", "%", BUSY.value),
            *case.stall_evidence("short_scoreboard", None),
            *case.stall_evidence("mio_throttle", None),
        ),
        location=case.place_of("memory_l1_wavefronts_shared"),
    )


_HOST_MISSES = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
_DEVICE_MISSES = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"
_HOST_WRITES = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum"
_DRAM_WRITES = "dram__sectors_write.sum"
"""L2 takes every write for a hit. What it passes on of the GPU's own memory is what DRAM writes; the host's all is."""


def _passed_on(case: Case) -> tuple[float, float] | None:
    """Return the sectors that L2 passes on to the host and to DRAM: misses, and writes where both sides counted them.

    None where the misses were not counted.
    """
    host, device = case.number(_HOST_MISSES), case.number(_DEVICE_MISSES)
    if host is None or device is None:
        return None
    written, dram = case.number(_HOST_WRITES), case.number(_DRAM_WRITES)
    return (host + written, device + dram) if written is not None and dram is not None else (host, device)


def _host(case: Case) -> Iterator[RuleVerdict]:
    passed = _passed_on(case)
    if passed is None or sum(passed) <= 0:
        return
    system, device = passed
    if case.number("device__attribute_integrated"):
        # A GPU that shares its memory with the host has no other to use.
        return
    share = system / (system + device)
    if 100 * share < HOST_SHARE.value:
        return
    yield RuleVerdict(
        headline=f"Host memory traffic: {format_percent(share)} of what L2 passes on goes to the host",
        why="The host link carries a small part of what DRAM does, so the kernel waits for it.",
        advice=(
            "Copy the data to the GPU before the kernel (cudaMemcpyAsync, .to('cuda')), or prefetch managed memory "
            "with cudaMemPrefetchAsync; read pinned host memory from a kernel only once and in order."
        ),
        confidence="measured",
        gain=case.memory_weight(),
        evidence=(
            *case.metric(_HOST_MISSES, "L2 misses to the host", "sector"),
            *case.metric(_HOST_WRITES, "writes to the host", "sector"),
            *case.metric(_DEVICE_MISSES, "L2 misses to DRAM", "sector"),
            *case.metric(_DRAM_WRITES, "sectors that DRAM wrote", "sector"),
            Evidence("", 100 * share, "%", threshold=HOST_SHARE.value, meaning="host share of L2 misses and writes"),
        ),
        location=case.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


_DRAM_GAIN = "1 − busy fraction: at most until DRAM is full. From 80 % on it is told as a fact (`info`)."
_REUSE_GAIN = (
    "1 − the larger of the levels below it and the floating-point work of its peak: those stay however well data is "
    "reused."
)


def _bandwidth_rule(
    level: str,
    name: str,
    check: Callable[[Case], Iterator[RuleVerdict]],
    looks_at: str,
    gain: str = _REUSE_GAIN,
    metrics: tuple[str, ...] = (),
    place: TreePlace = AT_MEMORY,
) -> Rule:
    return Rule(
        f"{level}-bandwidth",
        f"{name} bandwidth is the limit",
        about="limit",
        looks_at=looks_at,
        thresholds=(BUSY, NEAR_ROOF) if level == "dram" else (BUSY, MANY_WAVEFRONTS) if level == "l1" else (BUSY,),
        gain=gain,
        silent=f"{name} is under 60 % busy, or another memory level is busier, or it was not collected.",
        check=check,
        metrics=metrics,
        place=place,
    )


RULES = (
    _bandwidth_rule("dram", "DRAM", _dram, "Speed of light of DRAM against that of L2 and L1.", _DRAM_GAIN),
    _bandwidth_rule("l2", "L2", _l2, "Speed of light of L2 against that of DRAM and L1."),
    _bandwidth_rule(
        "l1",
        "L1",
        _l1,
        "Speed of light of L1 over elapsed cycles, or the busy fraction of its load/store data pipe, and how many "
        "passes (wavefronts) a request takes there.",
        metrics=(_WAVEFRONTS, REQUESTS),
    ),
    _bandwidth_rule(
        "shared",
        "Shared-memory",
        _shared,
        "Busy fraction of the data pipe by shared-memory wavefronts.",
        metrics=(_SHARED,),
        place=AT_SHARED,
    ),
    Rule(
        "host-memory-traffic",
        "The kernel reads or writes host memory",
        about="defect",
        looks_at="Sectors that L2 passes on, by where they belong, the host or the GPU's own DRAM: misses, and writes "
        "where both sides were counted.",
        thresholds=(HOST_SHARE,),
        gain="The share of time that memory can explain: a byte from the host takes many times as long as one from "
        "DRAM.",
        silent="Under 10 % of them go to the host, or the misses were not counted, or the GPU shares the host's "
        "memory.",
        check=_host,
        metrics=(_HOST_MISSES, _DEVICE_MISSES, _HOST_WRITES, _DRAM_WRITES),
        place=AT_MEMORY,
    ),
)
