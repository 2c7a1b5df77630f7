"""Which metrics a run collects: those of the limits of a kernel, and those that answer questions about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.questions import Question
from gpuprof.diagnose.registry import RULES
from gpuprof.hardware.specs import ArchSpec, Chain, CounterLink
from gpuprof.hardware.specs import metrics_of as metrics_of_link

TIME = "gpu__time_duration.sum"
SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
LAUNCH = (
    "launch__grid_size", "launch__block_size", "launch__registers_per_thread", *SHARED,
    "launch__shared_mem_per_block_driver", "launch__shared_mem_config_size",
    "launch__waves_per_multiprocessor", "launch__occupancy_limit_blocks", "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem", "launch__occupancy_limit_warps",
)  # fmt: skip
"""Attributes of a launch: they cost no pass."""
_ELAPSED = "avg.pct_of_peak_sustained_elapsed"
_LIMITS = (
    *(f"{unit}__cycles_elapsed.avg.per_second" for unit in ("gpc", "dram", "lts")),
    "sm__cycles_elapsed.avg", "sm__cycles_elapsed.max", "sm__cycles_active.avg", "sm__cycles_active.max",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct",
    "dram__bytes.sum", f"gpu__dram_throughput.{_ELAPSED}", "lts__t_sectors_srcunit_tex.sum", "l1tex__t_bytes.sum",
    "l1tex__t_sector_hit_rate.pct",
    *(
        f"{part}.{_ELAPSED}"
        for part in (
            "sm__issue_active", "sm__pipe_tensor_cycles_active", "sm__pipe_fma_cycles_active",
            "lts__t_sectors", "lts__t_tag_requests", "lts__d_sectors", "lts__d_atomic_input_cycles_active",
            "lts__xbar2lts_cycles_active", "lts__lts2xbar_cycles_active",
            "l1tex__data_pipe_lsu_wavefronts", "l1tex__f_wavefronts", "l1tex__lsuin_requests",
            "l1tex__m_xbar2l1tex_read_sectors",
        )
    ),
)  # fmt: skip
"""The limits of a kernel: its clocks, its bytes at three levels, how busy the parts of each unit are, and its
occupancy. Chosen so that CUPTI needs two passes for them on GH100 (`python -m benchmarks.passes`)."""
_LIMIT_QUANTITIES = ("pipe.fmaheavy", "peak.")
_OF_HOSTS_DRAM = ("traffic.dram", "throughput.dram")
"""DRAM that belongs to the host (Orin) is counted by the host's memory controller."""
_QUANTITIES: Mapping[Question, tuple[str, ...]] = {
    "work": ("work.", "peak."),
    "tensor-work": ("work.tensor.",),
    "memory": (
        "fabric.",
        "hit-rate.",
        "bytes-per-sector.",
        "count.global",
        "count.local",
        "count.shared",
        "count.bank",
    ),
    "pipes": ("pipe.", "scheduler.", "count.instructions", "count.thread"),
    "waits": ("scheduler.",),
}
"""The quantities that answer each question, by prefixes of their names."""
_EVIDENCE: Mapping[Question, tuple[str, ...]] = {
    "memory": ("l1tex__", "lts__", "dram__"),
    "pipes": ("sm__", "smsp__", "sass__"),
}
"""The metrics of rules that belong to the answer of a question, by prefixes of their names."""
_SAMPLES = ("smsp__pcsamp_sample_count", "group:smsp__pcsamp_warp_stall_reasons")
"""Where warps wait, by instruction: one pass, and findings name a line."""
_SLICES = ("lts__t_sectors_srcunit_tex.avg.peak_sustained",)
_COSTLY = (
    "sm__throughput", "gpu__compute_memory", "lts__throughput", "l1tex__throughput",
    "smsp__sass_thread_inst_executed_op", "sm__sass_thread_inst_executed_op", "sm__ops_path_",
    "l1tex__m_xbar2l1tex_read_bytes",
)  # fmt: skip
"""Metrics that take several passes, although another link of their chain gives nearly the same in one: figures of whole
units, whose parts are in `_LIMITS`, and counters of operations, which opcodes count together."""
_DRAM = "peak.dram"
_OPCODES = "tensor-opcodes"
_OF_BITS = "tensor.int1"
"""Hardly any program multiplies matrices of bits: that is not worth a pass."""


def limit_metrics(arch: ArchSpec) -> tuple[str, ...]:
    """Return the metrics of a kernel's limits on an architecture, each once."""
    hosts = _OF_HOSTS_DRAM if _DRAM not in arch.counters else ()
    quantities = _of_quantities(arch, (*_LIMIT_QUANTITIES, *hosts))
    wanted = (TIME, *LAUNCH, *_SLICES, *_with_dram(arch, _LIMITS), *quantities)
    return tuple(dict.fromkeys(wanted))


def question_metrics(arch: ArchSpec, questions: Iterable[Question]) -> tuple[str, ...]:
    """Return the metrics that answer questions about kernels whose limits are known, each once."""
    wanted = [TIME, *LAUNCH]
    for question in questions:
        if question == "tensor-work":
            wanted += _tensor_counters(arch)
            continue
        wanted += _of_quantities(arch, _QUANTITIES[question])
        wanted += _evidence(arch, _EVIDENCE.get(question, ()))
        wanted += _SAMPLES if question == "waits" else ()
    known = frozenset(limit_metrics(arch)) - {TIME, *LAUNCH}
    return tuple(metric for metric in dict.fromkeys(wanted) if metric not in known)


def metrics_of(arch: ArchSpec, name: str) -> tuple[str, ...]:
    """Return all metrics of a set on an architecture, each once, for a run that collects them together.

    Raises KeyError for a set that does not exist.
    """
    return tuple(dict.fromkeys((*limit_metrics(arch), *question_metrics(arch, SETS[name].questions))))


def opcodes_give_tensor_work(arch: ArchSpec) -> bool:
    """Return whether opcodes give all tensor work of an architecture. They do if single warps execute all of it.

    It is not known whether opcodes of a group of warps (`HGMMA`) are counted once or for each of its warps, and those
    of tcgen05 have no shapes.
    """
    return not _tensor_counters(arch)


def _tensor_counters(arch: ArchSpec) -> tuple[str, ...]:
    """Return the counters of that tensor work which opcodes do not give. On GH100 each takes a pass."""
    paths = (
        chain
        for quantity, chain in arch.counters.items()
        if quantity.startswith("work.tensor.") and not _is_by_warps(arch, quantity.removeprefix("work."))
    )
    return tuple(metric for chain in paths for metric in metrics_of_link(chain[0]))


def _evidence(arch: ArchSpec, beginnings: tuple[str, ...]) -> Iterator[str]:
    """Yield the metrics of rules that begin with one of these prefixes."""
    for rule in RULES:
        yield from _with_dram(arch, (metric for metric in rule.metrics if metric.startswith(beginnings)))


def _with_dram(arch: ArchSpec, metrics: Iterable[str]) -> Iterator[str]:
    """Yield metrics, without those of DRAM if it is the host's and has no counters of its own."""
    has_own = _DRAM in arch.counters
    return (metric for metric in metrics if has_own or not metric.startswith(("dram__", "gpu__dram")))


def _of_quantities(arch: ArchSpec, beginnings: tuple[str, ...]) -> Iterator[str]:
    for quantity, chain in arch.counters.items():
        if quantity.startswith(beginnings):
            yield from metrics_of_link(_way(arch, quantity, chain))


def _way(arch: ArchSpec, quantity: str, chain: Chain) -> CounterLink:
    """Return the first link of a quantity's chain that takes few passes; if there is none, the first."""
    if quantity.startswith("work.tensor.") and _is_by_warps(arch, quantity.removeprefix("work.")):
        return next((link for link in chain if link.how == _OPCODES), chain[0])
    cheap = (link for link in chain if not any(metric.startswith(_COSTLY) for metric in metrics_of_link(link)))
    return next(cheap, chain[0])


def _is_by_warps(arch: ArchSpec, path: str) -> bool:
    """Return whether single warps do all tensor work of a path; if no rate of it is known, all of the architecture."""
    every = [key for key in arch.compute if key.instruction is not None]
    mine = [key for key in every if key.path == path]
    return path == _OF_BITS or all(key.instruction == "mma.sync" for key in mine or every)
