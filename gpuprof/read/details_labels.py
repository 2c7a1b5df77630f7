"""Which metric a label of ncu's details page stands for.

Facts read from the `.section` files of Nsight Compute 2024.1 (`Header`, `Metrics` and `Body` entries: label
and metric name) and the sections in reports of 2022.1 to 2025.2, which agree on every name here.
Labels of the section "GPU Speed Of Light" are older (2019 to 2021: "SOL FB", "SOL DRAM", "SM [%]"), and so are
"Memory [%]" and "Compute (SM) [%]" (2021, beside "DRAM Throughput"); they are matched by what they mean, no report of
that age is at hand. A label whose metric depends on version or
chip is left out on purpose: "L2 Cache Bandwidth", "Theoretical L2 Cache Bytes Accessible" of hierarchical
rooflines are `l1tex__m_xbar2l1tex_read_bytes` in 2023.1, `lts__lts2xbar_cycles_active` × 32 in 2024.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType

from gpuprof.read.metric_units import unit_of
from gpuprof.units import ncu_unit

RAW_NAMES_SECTION = "Command line profiler metrics"

_METRIC = r"(?=[a-z0-9_]+?__[\w.:])[\w.:]+"
_PRINTED_NAME = re.compile(rf"(?P<alone>{_METRIC})|.+ \((?P<behind>{_METRIC})\)")
_SPEED_OF_LIGHT = {
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "Duration": "gpu__time_duration.sum",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory Throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory [%]": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "SM Active Cycles": "sm__cycles_active.avg",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "SM [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Waves Per SM": "launch__waves_per_multiprocessor",
}
_OLD_SPEED_OF_LIGHT = {
    **_SPEED_OF_LIGHT,
    "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
    "SOL DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL FB": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL TEX": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL L2 Cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL SM": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}
_COMPUTE = {
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
    "Issue Slots Busy": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
    "Max. Issued Slots Busy": "sm__inst_issued.max.pct_of_peak_sustained_active",
    "SM Busy": "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
}
_MEMORY = {
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Compression Ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
    "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Max Bandwidth": "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
    "Mem Busy": "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
    "Mem Pipes Busy": "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory Throughput": "dram__bytes.sum.per_second",
}
_MEMORY_CHART = {
    "DRAM bandwidth": "dram__bytes.sum.per_second",
    "L2 Cache Sector Throughput For TEX": "lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed",
    "L2 Cache Sectors": "lts__t_sectors.sum",
    "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
    "Missed L2 Cache Sectors For TEX": "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "PCIe read bandwidth": "pcie__read_bytes.sum.per_second",
    "PCIe write bandwidth": "pcie__write_bytes.sum.per_second",
}
_MEMORY_TABLES = {
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1TEX Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 Hit Rate For Loads": "lts__t_sector_op_read_hit_rate.pct",
    "L2 Hit Rate For Stores": "lts__t_sector_op_write_hit_rate.pct",
    "L2 Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    **{
        f"{word} Bytes Per Sector For {space.capitalize()} {kind}": (
            f"smsp__sass_average_data_bytes_per_sector_mem_{space}_op_{op}.{suffix}"
        )
        for word, suffix in (("Average", "ratio"), ("Maximum", "max_rate"))
        for space in ("global", "local")
        for kind, op in (("Loads", "ld"), ("Stores", "st"))
    },
    **{
        f"L1TEX Hit Rate For {space.capitalize()} {kind}": (
            f"l1tex__t_sector_pipe_lsu_mem_{space}_op_{op}_hit_rate.pct"
        )
        for space in ("global", "local")
        for kind, op in (("Loads", "ld"), ("Stores", "st"))
    },
}
_SCHEDULER = {
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "GPU Maximum Warps Per Scheduler": "smsp__warps_active.avg.peak_sustained",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "No Eligible": "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
    "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "Theoretical Active Warps Per Scheduler": "smsp__warps_active.avg.peak_sustained",
    "Theoretical Warps Per Scheduler": "smsp__maximum_warps_avg_per_active_cycle",
}
_STALLS = {
    "Barrier": "barrier",
    "Branch Resolving": "branch_resolving",
    "Dispatch Stall": "dispatch_stall",
    "Drain": "drain",
    "GMMA": "gmma",
    "IMC Miss": "imc_miss",
    "LG Throttle": "lg_throttle",
    "Long Scoreboard": "long_scoreboard",
    "MIO Throttle": "mio_throttle",
    "Math Pipe Throttle": "math_pipe_throttle",
    "Membar": "membar",
    "Misc": "misc",
    "No Instruction": "no_instruction",
    "Not Selected": "not_selected",
    "Short Scoreboard": "short_scoreboard",
    "Sleeping": "sleeping",
    "Tex Throttle": "tex_throttle",
    "Wait": "wait",
}
_WARP_STATE = {
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "Selected": "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
    "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    **{
        f"Stall {label}": f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for label, reason in _STALLS.items()
    },
}
_INSTRUCTIONS = {
    "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
    "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
    "Executed Instructions": "smsp__inst_executed.sum",
    "Issued Instructions": "smsp__inst_issued.sum",
}
_LAUNCH = {
    "# SMs": "launch__sm_count",
    "# TPCs": "launch__tpc_count",
    "Block Size": "launch__block_size",
    "Cluster Scheduling Policy": "launch__cluster_scheduling_policy",
    "Cluster Size": "launch__cluster_size",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Enabled TPC IDs": "launch__tpc_enabled",
    "Function Cache Configuration": "launch__func_cache_config",
    "Grid Size": "launch__grid_size",
    "Preferred Cluster Size": "launch__preferred_cluster_size",
    "Registers Per Thread": "launch__registers_per_thread",
    "Shared Memory Configuration Size": "launch__shared_mem_config_size",
    "Stack Size": "launch__stack_size",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Threads": "launch__thread_count",
    "Uses Green Context": "launch__uses_green_context",
    "Waves Per SM": "launch__waves_per_multiprocessor",
}
_OCCUPANCY = {
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Cluster Occupancy": "launch__occupancy_cluster_pct",
    "Max Active Clusters": "launch__cluster_max_active",
    "Max Cluster Size": "launch__cluster_max_potential_size",
    "Overall GPU Occupancy": "launch__occupancy_cluster_gpu_pct",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
}
_SOURCE = {
    "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
    "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
    "Branch Instructions": "smsp__inst_executed_op_branch.sum",
    "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
}
_DISTRIBUTION_UNITS = {
    "DRAM": "dram",
    "L1": "l1tex",
    "L2": "lts",
    "MC Channel": "mcc",
    "SM": "sm",
    "SMSP": "smsp",
}
_DISTRIBUTION = {
    **{f"Average {label} Active Cycles": f"{u}__cycles_active.avg" for label, u in _DISTRIBUTION_UNITS.items()},
    **{f"Total {label} Elapsed Cycles": f"{u}__cycles_elapsed.sum" for label, u in _DISTRIBUTION_UNITS.items()},
}
_PM_SAMPLING = {
    "# Pass Groups": "profiler__pmsampler_pass_groups",
    "Dropped Samples": "profiler__pmsampler_dropped_samples",
    "Maximum Buffer Size": "profiler__pmsampler_buffer_size_bytes",
}
_SASS = "__sass_thread_inst_executed_op_"
_ROOFLINE = {
    "DRAM Bandwidth": "dram__bytes.sum.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "L1/TEX Cache Frequency": "l1tex__cycles_elapsed.avg.per_second",
    "L2 Cache Frequency": "lts__cycles_elapsed.avg.per_second",
    "SM Frequency": "sm__cycles_elapsed.avg.per_second",
    "Tensor Instructions Executed Per Cycle": "smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed",
    "Tensor Operations Per Cycle": "derived__smsp__inst_executed_pipe_tensor_x512",
    "Theoretical DRAM Bytes Accessible": "dram__bytes.sum.peak_sustained",
    "Theoretical Tensor Instructions Executed": "sm__inst_executed_pipe_tensor.sum.peak_sustained",
    "Theoretical Tensor Operations": "derived__sm__inst_executed_pipe_tensor_x512",
    **{
        f"Predicated-On {op.upper()} Thread Instructions Executed Per Cycle": (
            f"smsp{_SASS}{op}_pred_on.sum.per_cycle_elapsed"
        )
        for op in ("dadd", "dmul", "dfma", "fadd", "fmul", "ffma", "hadd", "hmul", "hfma")
    },
    **{
        f"Theoretical Predicated-On {op.upper()} Thread Instructions Executed": (
            f"sm{_SASS}{op}_pred_on.sum.peak_sustained"
        )
        for op in ("dfma", "ffma", "hfma")
    },
    # Half precision is left out: its derived metric is ×2 or ×4 by version.
    **{
        f"Predicated-On {op.upper()} Operations Per Cycle": f"derived__smsp{_SASS}{op}_pred_on_x2"
        for op in ("dfma", "ffma")
    },
    **{
        f"Theoretical Predicated-On {op.upper()} Operations": f"derived__sm{_SASS}{op}_pred_on_x2"
        for op in ("dfma", "ffma")
    },
}
_PIPES = ("adu", "alu", "cbu", "fma", "fp16", "fp64", "lsu", "tex", "uniform", "xu")
_BODIES = MappingProxyType(
    {
        "Pipe Utilization (% of active cycles)": {
            label: f"sm__pipe_{pipe}_cycles_active.avg.pct_of_peak_sustained_active"
            for label, pipe in (("ALU", "alu"), ("FMA", "fma"), ("FP64", "fp64"), ("Tensor (All)", "tensor"))
        },
        "Pipe Utilization (% of peak instructions executed)": {
            "Uniform" if pipe == "uniform" else pipe.upper(): (
                f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active"
            )
            for pipe in _PIPES
        },
    }
)
"""Charts that `--print-details all` prints as tables; without the parts of pipes, whose metrics depend on the chip."""
_HIERARCHICAL = "GPU Speed Of Light Hierarchical Roofline Chart"
_SECTIONS = MappingProxyType(
    {
        "GPU Speed Of Light Throughput": _SPEED_OF_LIGHT,
        "GPU Speed Of Light": _OLD_SPEED_OF_LIGHT,
        "GPU Speed Of Light Roofline Chart": _ROOFLINE,
        f"{_HIERARCHICAL} (Double Precision)": _ROOFLINE,
        f"{_HIERARCHICAL} (Single Precision)": _ROOFLINE,
        f"{_HIERARCHICAL} (Half Precision)": _ROOFLINE,
        f"{_HIERARCHICAL} (Tensor Core)": _ROOFLINE,
        "Compute Workload Analysis": _COMPUTE,
        "Memory Workload Analysis": _MEMORY,
        "Memory Workload Analysis Chart": _MEMORY_CHART,
        "Memory Workload Analysis Tables": _MEMORY_TABLES,
        "Scheduler Statistics": _SCHEDULER,
        "Warp State Statistics": _WARP_STATE,
        "Instruction Statistics": _INSTRUCTIONS,
        "Launch Statistics": _LAUNCH,
        "Occupancy": _OCCUPANCY,
        "Source Counters": _SOURCE,
        "GPU and Memory Workload Distribution": _DISTRIBUTION,
        "PM Sampling": _PM_SAMPLING,
    }
)
_COMMON = ("launch__", "gpu__time_duration")
_CLOCK = "__cycles_elapsed.avg.per_second"
# Where one label of one section has a metric for each unit.
_BY_UNIT = MappingProxyType(
    {
        ("GPU Speed Of Light", "Memory Throughput", "byte/s"): "dram__bytes.sum.per_second",
        ("PM Sampling", "Maximum Sampling Interval", "cycle"): "profiler__pmsampler_interval_cycles",
        ("PM Sampling", "Maximum Sampling Interval", "s"): "profiler__pmsampler_interval_time",
    }
)
# These labels exist in the body of a section too, where a row may be one of a chart's series.
_BODY_IS_HEADER = frozenset({"GPU Speed Of Light Roofline Chart", "Scheduler Statistics", "Warp State Statistics"})


def metric_name(section: str, label: str, unit: str | None = None, body: str = "") -> str:
    """Return the metric of a label; `unit` is a base unit, `body` the chart or table that the row belongs to.

    With `--print-metric-name` ncu prints the metric itself instead of its label, or in brackets behind it.
    A label that is not known becomes "details:SECTION:LABEL" ("details:SECTION:BODY:LABEL" inside a body).
    """
    if section == RAW_NAMES_SECTION:
        return label
    printed = _PRINTED_NAME.fullmatch(label)
    if printed is not None:
        return printed["alone"] or printed["behind"]
    if label == "SM Frequency" and "Achieved Value" in body:
        return "smsp__cycles_elapsed.avg.per_second"  # as in the section file; the roofs above use sm__
    if body in _BODIES:
        return _BODIES[body].get(label) or f"details:{section}:{body}:{label}"
    known = _BY_UNIT.get((section, label, unit or "")) or _SECTIONS.get(section, {}).get(label)
    in_table = not body or section in _BODY_IS_HEADER or section.startswith(_HIERARCHICAL) or body == "GPU Throughput"
    if known is not None and in_table:
        return known
    return f"details:{section}:{body}:{label}" if body else f"details:{section}:{label}"


def depends_on_unit(section: str, label: str) -> bool:
    """Return whether a label of a section has a metric for each unit."""
    return any((section, label) == known[:2] for known in _BY_UNIT)


def section_of(rows: Iterable[tuple[str, str]]) -> str | None:
    """Return the only section whose table can have all these labels with these base units; None where it is not told.

    Of sections that name the same metrics it is the first.
    """
    rows = [*rows]
    named = {
        section: [metric_name(section, label, unit) for label, unit in rows]
        for section in _SECTIONS
        if all(is_known(section, label, unit) for label, unit in rows)
    }
    return next(iter(named), None) if len({*map(tuple, named.values())}) == 1 else None


def counter_labels() -> frozenset[str]:
    """Return the labels of all counters, without those that any program prints: Duration, Block Size, clocks."""
    return frozenset(
        label
        for named in _SECTIONS.values()
        for label, name in named.items()
        if not name.startswith(_COMMON) and not name.endswith(_CLOCK)
    )


def is_known(section: str, label: str, unit: str, body: str = "") -> bool:
    """Tell whether a section has a metric of that label, in that base unit if it was printed.

    A name that is printed itself must be one whose unit is known.
    """
    name = metric_name(section, label, unit, body)
    meant = unit_of(name)
    if name.startswith("details:") or (meant is None and name in label):
        return False
    return meant is None or unit in {"", ncu_unit(meant)[1]}
