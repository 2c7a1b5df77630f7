"""Which metrics a run collects: those that the model and the rules read, by the names that the architecture has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gpuprof.collect.counter_sets import OTHERS, SETS, VOLTA, Group
from gpuprof.diagnose.case import stall_metric
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
_OCCUPANCY = ("sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct")
_CYCLES = ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second")
_DRAM = "peak.dram"
_SHAPES = "tensor-opcodes"
_OF_BITS = "tensor.int1"
"""Hardly a program multiplies matrices of bits: it is not worth a pass."""
_SAMPLES = ("smsp__pcsamp_sample_count", "group:smsp__pcsamp_warp_stall_reasons")
"""Where warps wait, by instruction: one pass, and findings name a line."""
_SLICES = ("lts__t_sectors_srcunit_tex.avg.peak_sustained",)
_OF_VOLTA = ("sm_70", "sm_72")


def metrics_of(arch: ArchSpec, name: str, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the metrics of a set on an architecture, each once, without those that this GPU refused.

    Raises KeyError for a set that does not exist.
    """
    chosen = SETS[name]
    wanted = [TIME, *_CYCLES, *LAUNCH, *_SLICES, *_quantities(arch, chosen.quantities)]
    for group in chosen.groups:
        wanted += _GROUPS[group](arch)
    refused = set(without)
    return tuple(metric for metric in dict.fromkeys(wanted) if metric not in refused)


def forecast_passes(arch: ArchSpec, name: str) -> tuple[int, int]:
    """Return between how many passes a launch of this set will take; only ncu on the GPU knows the number."""
    passes = SETS[name].passes
    return passes.get(VOLTA if arch.name in _OF_VOLTA else arch.name, passes[OTHERS])


def _of_stalls(arch: ArchSpec) -> Iterator[str]:
    """Yield how long warps wait for each reason that the architecture tells apart."""
    return (stall_metric(reason, "counter") for reason in arch.stalls)


def _of_rules(arch: ArchSpec) -> Iterator[str]:
    """Yield what the rules read; DRAM has counters of its own where it is not the host's."""
    for rule in RULES:
        yield from (metric for metric in rule.metrics if _DRAM in arch.counters or not metric.startswith("dram__"))


def _quantities(arch: ArchSpec, beginnings: tuple[str, ...]) -> Iterator[str]:
    for quantity, chain in arch.counters.items():
        if quantity.startswith(beginnings):
            yield from metrics_of_link(_way(arch, quantity, chain))


def _way(arch: ArchSpec, quantity: str, chain: Chain) -> CounterLink:
    """Return the first way to a quantity; to tensor work that by opcodes, where they tell it surely.

    A counter of tensor work takes a pass for each data type, and one pass counts all opcodes. But whether those of a
    group of warps (`HGMMA`) are counted once or for each of its warps is not known, and tcgen05's have no shapes.
    """
    by_opcodes = [link for link in chain if link.how == _SHAPES]
    return by_opcodes[0] if by_opcodes and _is_by_warps(arch, quantity.removeprefix("work.")) else chain[0]


def _is_by_warps(arch: ArchSpec, path: str) -> bool:
    """Tell whether single warps do all tensor work of a path; where no rate of it is known, whether they do all."""
    every = [key for key in arch.compute if key.instruction is not None]
    mine = [key for key in every if key.path == path]
    return path == _OF_BITS or all(key.instruction == "mma.sync" for key in mine or every)


_GROUPS: Mapping[Group, Callable[[ArchSpec], Iterable[str]]] = {
    "occupancy": lambda _: _OCCUPANCY,
    "stalls": _of_stalls,
    "rules": _of_rules,
    "samples": lambda _: _SAMPLES,
}
"""What a set may take beside quantities, in metrics of an architecture."""
