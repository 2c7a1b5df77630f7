"""What matters in gpuprof's JSON: identities, numbers, rules and verdicts, without sentences.

Numbers keep six digits, gains two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.golden.inputs import Kind

Json = Mapping[str, Any]
_DIGITS, _GAIN_DIGITS = 6, 2
_MOST_KERNELS = 60
"""If a file has more kernels, only the longest are kept."""


def facts_of(kind: Kind, document: Json) -> dict[str, Any]:
    """Return the facts of what `gpuprof show`, `compare` or `check --format json` wrote."""
    facts: dict[Kind, Callable[[Json], dict[str, Any]]] = {
        "show": _session,
        "compare": _comparison,
        "check": _review,
    }
    rounded = _rounded(facts[kind](document))
    assert isinstance(rounded, dict)
    return rounded


def _session(session: Json) -> dict[str, Any]:
    kernels = session["kernels"]
    longest = sorted(kernels, key=lambda kernel: -(kernel["time_total_s"] or 0.0))[:_MOST_KERNELS]
    kept = {kernel["id"] for kernel in longest}
    verdict = session["verdict"]
    return {
        "sources": [_some(source, "kind", "tool", "tool_version", "clock_control") for source in session["sources"]],
        "devices": [_some(device, "name", "compute_capability", "sm_count", "spec") for device in session["devices"]],
        "ceilings": {ceiling["id"]: ceiling["value"] for ceiling in session["ceilings"]},
        "verdict": None if verdict is None else _some(verdict, "kernel", "state", "ceiling", "fraction"),
        "recommendations": [
            {
                **_some(entry, "rule", "kernels", "severity", "confidence", "gain_kind"),
                "gain_total": _gain(entry["gain_total"]),
            }
            for entry in session["recommendations"]
        ],
        "run": session["run"],
        "timeline": None if session["timeline"] is None else _timeline(session["timeline"]),
        "kernels_in_all": len(kernels),
        "kernels": [_kernel(kernel) for kernel in kernels if kernel["id"] in kept],
    }


def _timeline(timeline: Json) -> dict[str, Any]:
    devices = [{name: value for name, value in device.items() if _is_number(value)} for device in timeline["devices"]]
    return {"devices": devices, "steps": len(timeline["steps"]), "waits": len(timeline["waits"])}


def _kernel(kernel: Json) -> dict[str, Any]:
    names = ("id", "name", "label", "kind", "rank", "stream", "grid", "block", "registers_per_thread")
    sizes = ("shared_memory_per_block", "launches", "duration_s", "time_total_s", "time_share", "sm_clock_hz", "waves")
    occupancy = kernel["occupancy"]
    return {
        **_some(kernel, *names, *sizes),
        "flop": {work["path"]: work["flop"] for work in kernel["work"] if work["flop"]},
        "bytes": {traffic["level"]: traffic["bytes"] for traffic in kernel["traffic"]},
        "roofline": {
            f"{point['path']} {point['level']} {point['ceiling']}": [
                point["intensity"], point["flop_per_s"], point["fraction_of_roof"], point["bound"]
            ]
            for point in kernel["roofline"]
        },
        "throughput": {unit["unit"]: unit["fraction"] for unit in kernel["throughput"]},
        "occupancy": [occupancy["theoretical"], occupancy["achieved"], occupancy["limiters"]],
        "stalls": {stall["reason"]: stall["share"] for stall in kernel["stalls"][:3]},
        "findings": [_finding(finding) for finding in kernel["findings"]],
    }  # fmt: skip


def _finding(finding: Json) -> dict[str, Any]:
    place = finding["place"] or {}
    return {
        **_some(finding, "rule", "severity", "confidence", "gain_kind", "cause"),
        "gain_kernel": _gain(finding["gain_kernel"]),
        "gain_total": _gain(finding["gain_total"]),
        "line": place.get("line"),
    }


def _comparison(comparison: Json) -> dict[str, Any]:
    return {
        "alike": comparison["alike"],
        "total": {total["name"]: _some(total, "base", "new", "ratio", "verdict") for total in comparison["total"]},
        "kernels": [_compared_kernel(kernel) for kernel in comparison["kernels"][:_MOST_KERNELS]],
    }


def _compared_kernel(kernel: Json) -> dict[str, Any]:
    time, work = kernel["time"] or {}, kernel["work"] or {}
    return {
        **_some(kernel, "id", "label", "match", "effect"),
        "base": sum(side["launches"] for side in kernel["base"]),
        "new": sum(side["launches"] for side in kernel["new"]),
        "time": _some(time, "verdict", "base_s", "new_s", "ratio", "cycles_ratio"),
        "work": work.get("verdict"),
        "counts": {count["name"]: [count["word"], count["ratio"]] for count in work.get("counts", ())},
        "causes": [_some(cause, "mechanism", "direction") for cause in kernel["causes"]],
        "findings": [_some(finding, "word", "rule", "severity") for finding in kernel["findings"]],
    }


def _review(review: Json) -> dict[str, Any]:
    return {"kernels": [_reviewed_kernel(kernel) for kernel in review["kernels"][:_MOST_KERNELS]]}


def _reviewed_kernel(kernel: Json) -> dict[str, Any]:
    occupancy, resources = kernel["occupancy"] or {}, kernel["resources"] or {}
    return {
        **_some(kernel, "id", "label", "target", "grid", "block"),
        "resources": {name: value for name, value in resources.items() if _is_number(value)},
        "spills": resources.get("spills"),
        "occupancy": [occupancy.get("fraction"), occupancy.get("limiters")],
        "loops": [[loop["depth"], loop["instructions"], loop["trips"]] for loop in kernel["loops"]],
        "accesses": {
            f"{access['offset']:#x} {access['opcode']}": [
                access["sectors_per_request"],
                access["wavefronts_per_request"],
                access["needed_per_request"],
                access["line"],
            ]
            for access in kernel["accesses"]
        },
        "findings": [
            [finding["rule"], finding["confidence"], [place["line"] for place in finding["places"]]]
            for finding in kernel["findings"]
        ],
    }


def _some(entry: Json, *names: str) -> dict[str, Any]:
    return {name: entry.get(name) for name in names}


def _gain(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_GAIN_DIGITS}g}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rounded(value: Any) -> Any:
    """Round every number in a document to its digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(item) for item in value]
    return value
