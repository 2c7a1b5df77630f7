"""Units of the metrics in `.ncu-rep` files, which hold numbers and names only.

A name says its unit: what is counted (`lts__t_sectors_op_read`: sectors), over which instances it was rolled up
(`.sum`, `.avg`, `.min`, `.max`), and what that is related to (`.per_second`, `.pct_of_peak_sustained_elapsed`).
The units are those that NVIDIA's reader gives a metric of a chip that it knows; `ncu_unit` scales them. Where it does
not know that a chip has a metric, it takes some word of the name for the unit, and `READ_TWO_WAYS` says where.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_ROLLED_UP = re.compile(
    r"(?P<base>.*?)\.(?:sum|avg|min|max)"
    r"(?:\.(?P<relation>per_second|per_cycle_\w+|pct_of_peak_\w+|peak_(?:sustained|burst)(?:_\w+)?))?"
    r"(?P<second>\.per_second)?"
)
_RATIO = re.compile(r"(?P<base>.*?)\.(?P<kind>pct|ratio|max_rate)")
_SAMPLING = ("pmsampling:", "warpsampling:", "breakdown:")
_TRIAGE = re.compile(r"(?<![A-Z])[A-Z]+_[A-Z]\.Triage\w+\.")

_NAMED: Mapping[str, str] = {
    "inst_executed": "inst",
    "thread_inst_executed": "inst",
    "thread_inst_executed_true": "inst",
    "memory_l1_tag_requests_global": "sectors",
    "memory_l1_wavefronts_shared": "sectors",
    "memory_l1_wavefronts_shared_ideal": "sectors",
    "memory_l2_theoretical_sectors_global": "sectors",
    "memory_l2_theoretical_sectors_global_ideal": "sectors",
    "memory_l2_theoretical_sectors_local": "sectors",
    "memory_access_size_type": "",
    "memory_access_type": "",
    "memory_type": "",
    "sass__size": "byte",
    "sass__size_inst_executed": "byte",
    "sass__size_thread_inst_executed_true": "byte",
    "sm__maximum_warps_avg_per_active_cycle": "warp",
    "smsp__maximum_warps_avg_per_active_cycle": "warp",
    "sm__maximum_warps_per_active_cycle_pct": "%",
    "smsp__maximum_warps_per_active_cycle_pct": "%",
    "derived__avg_thread_executed": "thread",
    "derived__avg_thread_executed_true": "thread",
    "derived__avg_thread_unexecuted_true": "thread",
    "derived__derivative_avg_thread_executed_true": "thread",
    "derived__local_spilling_requests": "",
    "derived__local_spilling_requests_pct": "%",
    "derived__memory_l1_conflicts_shared_nway": "",
    "derived__memory_l1_wavefronts_shared_excessive": "",
    "derived__memory_l2_theoretical_sectors_global_excessive": "sector",
    "derived__pct_occupancy_per_block_size": "%",
    "derived__pct_occupancy_per_barrier_count": "",
    "derived__pct_occupancy_per_register_count": "%/register",
    "derived__pct_occupancy_per_shared_mem_size": "%/byte",
    "derived__smsp__inst_executed_op_branch_pct": "%",
    "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.peak_sustained": "",
    "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.per_second": "",
    "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained": "",
    "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second": "",
    "derived__lts__lts2xbar_bytes.sum.peak_sustained": "byte",
    "derived__lts__lts2xbar_bytes.sum.per_second": "byte",
    "launch__cluster_max_active": "cluster",
    "launch__cluster_max_potential_size": "block",
    "launch__block_dim_x": "block",
    "launch__block_dim_y": "block",
    "launch__block_dim_z": "block",
    "launch__occupancy_cluster_gpu_pct": "%",
    "launch__occupancy_cluster_pct": "%",
    "launch__persisting_l2_cache_size": "byte",
    "launch__registers_per_thread": "register/thread",
    "launch__registers_per_thread_allocated": "register/thread",
    "launch__shared_mem_config_size": "byte",
    "launch__sm_count": "SM",
    "launch__thread_count": "thread",
    "profiler__pmsampler_buffer_size_bytes": "byte",
    "profiler__pmsampler_dropped_samples": "sample",
    "profiler__pmsampler_merged_samples": "sample",
    "profiler__pmsampler_interval_cycles": "cycle",
    "profiler__pmsampler_interval_time": "ns",
    "profiler__replayer_passes": "pass",
    "profiler__replayer_passes_type_warmup": "pass",
    "smsp__sass_inst_executed_memdesc_explicit_evict_type": "",
    "smsp__pcsamp_aggregated_passes": "pass",
    "smsp__pcsamp_buffer_size_bytes": "byte",
    "smsp__pcsamp_dropped_bytes": "byte",
    "smsp__pcsamp_interval": "",
    "smsp__pcsamp_interval_cycles": "cycle",
    "smsp__pcsamp_sample_count": "",
    "smsp__pcsamp_samples_data_dropped": "sample",
}
"""What the rules below do not tell. Wavefronts in sectors, and dimensions of a block in blocks, are NVIDIA's words."""

_BY_BEGINNING = (
    ("device__attribute_", ""),
    ("launch__occupancy_limit_", "block"),
    ("launch__shared_mem_per_block", "byte/block"),
    ("launch__", ""),
    ("profiler__replayer_bytes", "byte"),
    ("profiler__", ""),
    ("smsp__pcsamp_warps_issue_stalled_branch_", "branches"),
    ("smsp__pcsamp_warps_issue_stalled_no_inst", "inst"),
    ("smsp__pcsamp_warps_issue_stalled_", "warp"),
    ("smsp__branch_targets_threads_", "branches"),
    ("nvlink__", ""),
    ("numa__", ""),
    ("c2clink__", ""),
    ("group:", ""),
    ("sass__inst_executed_per_opcode", ""),
    ("sass__thread_inst_executed_per_opcode", ""),
    ("sass__thread_inst_executed_true_per_opcode", ""),
    ("derived__sm__inst_executed_pipe_tensor_x", ""),
    ("derived__smsp__inst_executed_pipe_tensor_x", ""),
)

_RATIOS = tuple(
    (re.compile(pattern), unit)
    for pattern, unit in (
        (r"_rate(?:_|$)|_per_warp_active$|branch_targets_threads_uniform$", ""),
        (r"__(?:average_)?thread_inst_executed(?:_pred_on)?_per_inst_executed", ""),
        (r"average_t_sectors_per_request", "sector"),
        (r"__average_xbar2gpc_sectors_op_", ""),
        (r"average_data_bytes_per_sector", "byte/sector"),
        (r"average_data_bytes_per_wavefront", "byte"),
        (r"__amortized_warp_latency$", "cycle/warp"),
        (r"__average_warp_latency_issue_stalled_", "inst/warp"),
        (r"__average_(?:warp|cta)_latency", "cycle"),
        (r"__average_warps_active_per_inst_executed$", "cycle"),
        (r"__average_warps_active_per_issue_active$", "warp"),
        (r"__average_warps_issue_stalled_\w{1,100}_per_issue_active$", "inst"),
        (r"__average_inst_executed_(?:\w{1,100}_)?per_warp$", "inst/warp"),
        (r"__inst_(?:issued|executed)_per_issue_active$", "inst/cycle"),
        (r"__average_registers_per_thread", "register/thread"),
        (r"__average_threads_launched_per_warp", "thread/warp"),
    )
)
"""What a base name with `.ratio` or `.max_rate` relates to what."""

_COUNTED = tuple(
    (re.compile(pattern), unit)
    for pattern, unit in (
        (r"__time_(?:active|duration|start|end)", "ns"),
        (r"(?:^|_)(?:tex_requests|i[cm]c_requests|t_set_conflicts|issue_active|issue_inst[01])(?:_|$)", "cycle"),
        (r"__f_cycles_active$|_l1tex_lsu_writeback_active_mem_shared", ""),
        (r"cycles_|_writeback_active", "cycle"),
        (r"tag_requests", "tag"),
        (r"(?:lsuin|texin)_requests|l1tex_+t_requests|_l1tex_tmain_requests", ""),
        (r"__tmain_requests", "inst"),
        (r"requests(?:_|$)", "request"),
        (r"bytes(?:_|$)", "byte"),
        (r"sectors(?:_|$)", "sector"),
        (r"inst_executed|inst_issued|divergent_instruction", "inst"),
        (r"__ctas_", "block"),
        (r"__threads_launched", "thread"),
        (r"__warps_", "warp"),
        (r"branch_targets", "branches"),
        (r"registers_allocated", "register"),
        (r"output_ops_", "ops"),
        (r"wavefronts|bank_(?:conflicts|reads|writes)|t_set_accesses|l1tex_tags_|__cgas_|__ops_path_", ""),
        (r"__l1tex_data_|__sass_l1tex_|l1tex__data_pipe", ""),
    )
)
"""What a base name counts."""

_LEVEL = re.compile(r"__(?:ctas_active|warps_(?:active|eligible|issue_stalled)|sm_rf_registers_allocated)")
"""What is there in each cycle: its mean over cycles is no rate."""
_BARE = re.compile(r"__(?:cgas_|ops_path_)")
"""Counts of nothing in particular whose rates NVIDIA's reader gives no unit either."""
_LONGEST_NAME = 1000
"""The longest of seven chips has 130 characters."""

_FLOP_COUNTS = tuple(f"smsp__sass_thread_inst_executed_op_{kind}_pred_on" for kind in (
    "dadd", "dfma", "dmul", "fadd", "ffma", "fmul", "hadd", "hfma", "hmul"
))  # fmt: skip
_BREAKDOWN = "breakdown:gpu__compute_memory_throughput"
READ_TWO_WAYS: Mapping[str, str] = {
    **{f"{base}.sum.per_cycle_elapsed": "cycle" for base in _FLOP_COUNTS},
    "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained": "inst",
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": "inst",
    "sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained": "inst",
    "smsp__sass_average_branch_targets_threads_uniform.pct": "branches",
    "smsp__sass_inst_executed_op_memory_128b.sum": "",
    "smsp__sass_inst_executed_op_memory_16b.sum": "",
    **{
        f"derived__{unit}__sass_thread_inst_executed_op_{fused}": "thread"
        for unit in ("sm", "smsp")
        for fused in ("dfma_pred_on_x2", "ffma_pred_on_x2", "hfma_pred_on_x4")
    },
    "derived__smsp__sass_thread_inst_executed_op_hadd_pred_on_x2": "thread",
    "derived__smsp__sass_thread_inst_executed_op_hmul_pred_on_x2": "thread",
    "derived__memory_l2_theoretical_sectors_global_excessive": "byte",
    "gcc__xbar2gcc_sectors.sum": "",
    **{f"{_BREAKDOWN}.{rollup}.pct_of_peak_sustained_elapsed": "byte" for rollup in ("sum", "avg", "min", "max")},
}
"""Names that NVIDIA's reader gives this unit in some reports and that of `unit_of`, which fits the name, in others.

All are of chips whose metric it does not know, or of no chip (`derived__`, `breakdown:`).
"""


@lru_cache(maxsize=8192)
def unit_of(name: str) -> str | None:
    """Return the unit that NVIDIA's reader gives a number under this name, as it writes it; None if it is not known.

    A count of nothing in particular has none: "".
    """
    if len(name) > _LONGEST_NAME:
        return None
    bare = name.removeprefix(next((prefix for prefix in _SAMPLING if name.startswith(prefix)), ""))
    unit = _NAMED.get(bare)
    if unit is None:
        unit = next((unit for beginning, unit in _BY_BEGINNING if bare.startswith(beginning)), None)
    return unit if unit is not None else _of_counter(_TRIAGE.sub("", bare, count=1))


def _of_counter(name: str) -> str | None:
    """Return the unit of what hardware counted, or of a ratio of two counts."""
    ratio = _RATIO.fullmatch(name)
    if ratio is not None:
        return "%" if ratio["kind"] == "pct" else _first(_RATIOS, ratio["base"])
    rolled_up = _ROLLED_UP.fullmatch(name)
    if rolled_up is None:
        return _first(_COUNTED, name) if "." not in name else None
    return _related(rolled_up["base"], rolled_up["relation"] or "", rolled_up["second"] is not None)


def _related(base: str, relation: str, per_second: bool) -> str | None:
    """Return the unit of a counter that is related to time, to cycles or to its peak."""
    if relation.startswith("pct_"):
        return "%"
    unit = _first(_COUNTED, base)
    if unit is None or _BARE.search(base):
        return unit
    if per_second or relation == "per_second":
        return "hz" if unit == "cycle" else f"{unit or 1}/s"
    if not relation or relation.startswith(("peak_sustained_", "peak_burst_")):
        return unit
    if _LEVEL.search(base):
        return unit
    return "" if unit == "cycle" else f"{unit or 1}/cycle"


def _first(rules: tuple[tuple[re.Pattern[str], str], ...], base: str) -> str | None:
    return next((unit for pattern, unit in rules if pattern.search(base)), None)
