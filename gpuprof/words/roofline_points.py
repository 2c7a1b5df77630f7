"""Why a kernel has no roofline point."""

from __future__ import annotations

from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Work
from gpuprof.words.profile_values import LEVEL_NAMES, above_ceiling, missing_work, paths_text, remedy_for

_CEILING_FROM = {
    "at-clock": "give a GPU spec with --spec NAME|FILE",
    "rated": "give a GPU spec with --spec NAME|FILE",
    "measured": "gpuprof characterize measures them on that GPU",
}


def lacks_float_work(kernel: KernelProfile) -> bool:
    """Return whether all paths of a kernel were counted and none has floating-point work."""
    unknown = [path for path in missing_work(kernel) if path != "int32"]
    return bool(kernel.work) and not unknown and not _counted_work(kernel)


def without_point(kernel: KernelProfile, level: str = "dram", ceiling: str = "at-clock") -> Missing:
    """Return why a kernel has no roofline point at a level, and what would give it one."""
    impossible = above_ceiling(kernel, level)
    if impossible is not None:
        return impossible
    name = LEVEL_NAMES[level]
    counted = _counted_work(kernel)
    unknown = [path for path in missing_work(kernel) if path != "int32"]
    traffic = next((item for item in kernel.traffic if item.level == level), None)
    rates = [item.flop_per_s for item in counted]
    if not kernel.work:
        why, how = "work not collected", remedy_for(kernel, "work.fp32")
    elif not counted and unknown:
        why, how = f"{paths_text(unknown)} not collected", remedy_for(kernel, f"work.{unknown[0]}")
    elif lacks_float_work(kernel):
        why, how = "no floating-point work", ""
    elif traffic is None:
        why, how = f"{name} traffic not collected", remedy_for(kernel, f"traffic.{level}")
    elif not traffic.bytes and not traffic.bytes_per_s:
        why, how = f"no {name} traffic", ""
    elif kernel.duration_s is None and (traffic.bytes_per_s is None or not any(rates)):
        why, how = "duration not collected", remedy_for(kernel, "duration")
    elif ceiling == "rated" and level != "dram":
        why, how = f"datasheets rate no {name} bandwidth", "choose --ceiling at-clock"
    else:
        why, how = f"no {ceiling} ceiling known for its work", _CEILING_FROM[ceiling]
    return Missing("roofline point", why, how)


def _counted_work(kernel: KernelProfile) -> list[Work]:
    return [item for item in kernel.work if item.path != "int32" and (item.flop or item.flop_per_s)]
