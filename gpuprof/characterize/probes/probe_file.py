"""Reads a probe's YAML into a Probe. Anything unknown, missing or inconsistent is an error at its file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuprof.characterize.probes.gate_file import Parameters, parse_condition, parse_targets
from gpuprof.characterize.probes.kernel_file import KERNEL_KEYS, SCALARS, parse_kernel, parse_sweeps, sweep_values
from gpuprof.characterize.probes.probe import (
    CHECKS,
    DATA,
    LAUNCHED,
    MEMORIES,
    METHODS,
    QUANTITIES,
    REGIMES,
    STATISTICS,
    Expected,
    Kernel,
    PhysicalLimit,
    Probe,
    Sweep,
    TileSpec,
    Transfer,
    all_targets,
    targets_from,
)
from gpuprof.characterize.probes.products import parse_product
from gpuprof.hardware.parse import BANDWIDTHS, OPERATIONS
from gpuprof.hardware.parse_facts import parse_compute_key
from gpuprof.hardware.specs import ComputeKey
from gpuprof.hardware.yaml_fields import Fields, number, whole
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree

UNITS = {
    "FLOP/clk/SM": "flop", "OP/clk/SM": "op", "result/clk/SM": "result", "B/clk/SM": "byte", "B/clk": "byte",
    "FLOP/s": "flop", "OP/s": "op", "B/s": "byte", "cycle": "result", "s": None, "B": None,
    "block": None, "W": None, "Hz": None,
}  # fmt: skip
"""Unit of a result, and the work that it needs counted."""

KEYS = {
    "schema", "name", "family", "title", "quantity", "unit", "method", "statistic", "regimes", "data", "architectures",
    "entry", "sweep", "along", "series", "launched", "transfer", "load", "check", "tile", "limit", "expected",
    *KERNEL_KEYS,
}  # fmt: skip
_TILE = {"m", "n", "k", "times", "a", "b", "d", "held", "of", "by"}
_LIMIT_KINDS = ("compute", "bandwidth", "operations", "rate")
_LAUNCH_AXES = ("block", "blocks_per_sm", "grid")


def read_probe(path: Path) -> Probe:
    """Read `FAMILY/NAME.yaml`. Raises BrokenSpec with file and line."""
    tree = load_tree(path)
    top = Fields(tree, "a probe file", KEYS)
    _check_head(top, path)
    targets, unsupported = _architectures(top)
    sweeps = parse_sweeps(top.node("sweep"))
    kernel = _kernel(top, path, targets, sweeps)
    parameters = dict(kernel.parameters) if kernel else {}
    variables = {**sweep_values(sweeps), **parameters}
    unit = top.choice("unit", tuple(UNITS))
    _check_work(top, kernel, unit)
    axes = (*sweeps, *parameters, *_LAUNCH_AXES)
    return Probe(
        name=path.stem,
        family=path.parent.name,
        title=top.text("title"),
        quantity=top.choice("quantity", QUANTITIES),
        unit=unit,
        method=top.choice("method", METHODS),
        statistic=top.choice("statistic", STATISTICS),
        regimes=top.choices("regimes", REGIMES),
        data=top.choices("data", DATA),
        targets=targets,
        unsupported=unsupported,
        kernel=kernel,
        sweeps=sweeps,
        along=top.choice("along", axes) if _belongs(top, "along", "curve") else None,
        series=top.choices("series", axes) if "series" in top else (),
        launched=top.choice("launched", LAUNCHED) if _belongs(top, "launched", "launch") else None,
        transfer=_transfer(top.required("transfer")) if _belongs(top, "transfer", "copy") else None,
        load=top.optional_text("load"),
        check=top.choice("check", CHECKS) if "check" in top else None,
        tile=_tile(top, parameters),
        limits=tuple(_limit(node, targets, variables, unit) for node in top.entries("limit")),
        expected=tuple(_expected(node, targets, variables, unit) for node in top.entries("expected")),
        place=tree.place,
    )


def _check_head(top: Fields, path: Path) -> None:
    if top.text("schema") != "1":
        raise BrokenSpec(top.place("schema"), "schema must be 1; this gpuprof reads no other")
    for key, wanted in (("name", path.stem), ("family", path.parent.name)):
        if top.text(key) != wanted:
            raise BrokenSpec(top.place(key), f"{key} must be {wanted!r}, as the file is called")


def _architectures(top: Fields) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the targets that the probe is compiled for, and why it is not for others that it names."""
    entry = Fields(top.required("architectures"), "architectures", {"lowest", "targets", "unsupported"})
    if ("lowest" in entry) == ("targets" in entry):
        raise BrokenSpec(top.place("architectures"), "architectures must give either lowest or targets")
    unsupported = {
        target: node.text("a reason")
        for name, node in entry.mapping("unsupported").items()
        for target in parse_targets(YamlNode(name, node.place))
    }
    if "lowest" in entry:
        named = set(targets_from(parse_targets(entry.required("lowest"))[0]))
    else:
        named = {target for node in entry.items("targets") for target in parse_targets(node)}
    targets = tuple(target for target in all_targets() if target in named and target not in unsupported)
    if not targets:
        raise BrokenSpec(top.place("architectures"), "no target is left")
    return targets, unsupported


def _kernel(top: Fields, path: Path, targets: tuple[str, ...], sweeps: Mapping[str, Sweep]) -> Kernel | None:
    """Return the kernel, or None for what only the host does: a copy, an idle clock."""
    if "entry" not in top:
        for key in KERNEL_KEYS:
            if key in top:
                raise BrokenSpec(top.place(key), f"{key} needs an entry, the name of the kernel")
        return None
    kernel = parse_kernel(top, path.with_suffix(".cu"), targets, sweeps)
    _check_names(top, kernel, sweeps)
    return kernel


def _check_names(top: Fields, kernel: Kernel, sweeps: Mapping[str, Sweep]) -> None:
    """Refuse names of buffers and sweeps that are not there."""
    for argument, node in zip(kernel.arguments, top.items("arguments"), strict=True):
        if argument.kind in {"buffer", "bytes"} and argument.name not in kernel.buffers:
            raise BrokenSpec(node.place, f"buffers has no {argument.name!r}")
        if argument.kind in SCALARS and argument.name not in sweeps:
            number(YamlNode(argument.name, node.place), f"a value, or the name of a sweep ({argument.name})")
    for name, buffer in kernel.buffers.items():
        for sweep in (buffer.sweep, buffer.stride):
            if isinstance(sweep, str) and sweep not in sweeps:
                raise BrokenSpec(top.mapping("buffers")[name].place, f"there is no sweep {sweep!r}")


def _check_work(top: Fields, kernel: Kernel | None, unit: str) -> None:
    """Refuse a unit whose work is not counted: a bandwidth needs bytes."""
    needed = UNITS[unit]
    if kernel and needed and all(what != needed for what, _ in kernel.work.iteration):
        raise BrokenSpec(top.place("work"), f"a result in {unit} needs work: iteration: {needed}")


def _belongs(top: Fields, key: str, method: str) -> bool:
    """Tell whether the key is there. It belongs to one method, which needs it; copies and powers may go along sizes."""
    given = top.text("method")
    if given == method and key not in top:
        raise BrokenSpec(top.place("method"), f"method {method} needs {key}")
    if given != method and key in top and not (key == "along" and given in {"copy", "power"}):
        raise BrokenSpec(top.place(key), f"{key} belongs to method {method}, not {given}")
    return key in top


def _transfer(node: YamlNode) -> Transfer:
    entry = Fields(node, "transfer", {"from", "to"})
    return Transfer(entry.choice("from", MEMORIES), entry.choice("to", MEMORIES))


def _tile(top: Fields, parameters: Parameters) -> TileSpec | None:
    """Read the product that `check: tile` compares."""
    if ("tile" in top) != ("check" in top and top.text("check") == "tile"):
        raise BrokenSpec(top.place("check"), "check tile needs tile, and no other has it")
    if "tile" not in top:
        return None
    entry = Fields(top.required("tile"), "tile", _TILE)
    m, n, k, times = (parse_product(entry.required(key), key, parameters) for key in ("m", "n", "k", "times"))
    held = tuple(whole(node, "held", least=0) for node in entry.items("held"))
    return TileSpec(
        m=m,
        n=n,
        k=k,
        times=times,
        a=entry.text("a"),
        b=entry.text("b"),
        d=entry.text("d"),
        held=held,
        of=entry.whole("of") if held else 1,
        by=entry.text("by") if "by" in entry else "and",
    )


def _limit(node: YamlNode, targets: tuple[str, ...], parameters: Parameters, unit: str) -> PhysicalLimit:
    entry = Fields(node, "limit", {*_LIMIT_KINDS, "fraction", "source", "floor", "why", "architectures", "when"})
    if sum(kind in entry for kind in _LIMIT_KINDS) != 1:
        raise BrokenSpec(node.place, f"a limit names one of {', '.join(_LIMIT_KINDS)}")
    sourced = "rate" in entry or "fraction" in entry
    floor = entry.amount("floor", "%") / 100 if "floor" in entry else None
    if floor is not None and not 0 < floor < 1:
        raise BrokenSpec(entry.place("floor"), "floor must lie between 0 % and 100 %")
    return PhysicalLimit(
        condition=parse_condition(entry, targets, parameters),
        compute=_compute(entry) if "compute" in entry else None,
        bandwidth=entry.choice("bandwidth", (*BANDWIDTHS, "dram", "pcie")) if "bandwidth" in entry else None,
        operation=entry.choice("operations", (*OPERATIONS, "issue")) if "operations" in entry else None,
        rate=entry.optional_amount("rate", unit),
        fraction=entry.amount("fraction", "%", 100.0) / 100,
        source=entry.text("source") if sourced or "source" in entry else None,
        floor=floor,
        why=entry.text("why") if floor is not None or "why" in entry else None,
    )


def _compute(entry: Fields) -> ComputeKey:
    return parse_compute_key(entry.text("compute"), entry.required("compute"), instruction=True)


def _expected(node: YamlNode, targets: tuple[str, ...], parameters: Parameters, unit: str) -> Expected:
    entry = Fields(node, "an expected range", {"architectures", "when", "products", "low", "high", "source"})
    of_limit = entry.text("low").endswith("%")
    scale, given = (100.0, "%") if of_limit else (1.0, unit)
    low, high = (entry.amount(key, given) / scale for key in ("low", "high"))
    if low > high:
        raise BrokenSpec(node.place, "low is above high")
    return Expected(
        condition=parse_condition(entry, targets, parameters),
        products=entry.texts("products") or (),
        low=low,
        high=high,
        of_limit=of_limit,
        source=entry.text("source"),
    )
