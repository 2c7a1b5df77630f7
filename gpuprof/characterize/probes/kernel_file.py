"""Reads the CUDA side of a probe file: arguments, parameters, buffers, sweeps, launch shapes, work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuprof.characterize.probes.gate_file import Parameters, parse_condition, parse_gate
from gpuprof.characterize.probes.probe import (
    FILLS,
    SHARES,
    TYPES,
    WORK,
    Argument,
    Buffer,
    Condition,
    IntegerProduct,
    IterationWork,
    Kernel,
    LaunchShapes,
    Size,
    Sweep,
)
from gpuprof.characterize.probes.products import parse_product
from gpuprof.hardware.yaml_fields import Fields, amount, number
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode

KERNEL_KEYS = ("arguments", "parameters", "left_out", "buffers", "launch", "work", "unrolled", "gate")
SCALARS = ("u32", "u64", "f32", "f64")
ALL_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""What `blocks_per_sm: all` tries, as far as an SM has room: every count up to four, then two for each doubling."""
_ROLES = ("clocks", "iterations", "sink")


def parse_kernel(top: Fields, source: Path, targets: tuple[str, ...], sweeps: Mapping[str, Sweep]) -> Kernel:
    """Read what belongs to the kernel whose name `entry` gives. Work and shared memory may depend on sweeps."""
    if not source.is_file():
        raise BrokenSpec(top.place("entry"), f"there is no {source.name} beside this file")
    parameters = _parameters(top)
    variables = {**sweep_values(sweeps), **parameters}
    return Kernel(
        source=source,
        entry=top.text("entry"),
        arguments=tuple(_argument(node) for node in top.items("arguments")),
        parameters=tuple(parameters.items()),
        buffers={name: _buffer(node) for name, node in top.mapping("buffers").items()},
        launch=_launch(top.required("launch"), variables),
        work=_work(top.required("work"), variables),
        unrolled=parse_product(top.required("unrolled"), "unrolled", parameters),
        gate=parse_gate(top.required("gate"), targets, parameters),
        left_out=tuple(_left_out(node, targets, parameters) for node in top.items("left_out")),
    )


def _parameters(top: Fields) -> dict[str, tuple[str, ...]]:
    parameters = {}
    for name, node in top.mapping("parameters").items():
        if not name.isidentifier() or not name.isupper():
            raise BrokenSpec(node.place, f"{name!r} must be a macro name in capitals")
        values = node.entries()
        parameters[name] = tuple(value.text(f"a value of {name}") for value in values)
        if not values:
            raise BrokenSpec(node.place, f"{name} has no value")
    return parameters


def _left_out(node: YamlNode, targets: tuple[str, ...], parameters: Parameters) -> tuple[Condition, str]:
    entry = Fields(node, "left_out", {"architectures", "when", "why"})
    condition = parse_condition(entry, targets, parameters)
    if not condition.values:
        raise BrokenSpec(
            node.place,
            "left_out must say for which values of the parameters; leave a whole target out of architectures",
        )
    return condition, entry.text("why")


def _argument(node: YamlNode) -> Argument:
    kind, _, name = node.text("an argument").partition(" ")
    if (kind in _ROLES and not name) or (kind in {"buffer", "bytes", *SCALARS} and name):
        return Argument(kind, name.strip() or None)
    raise BrokenSpec(
        node.place,
        f"an argument is one of {', '.join(_ROLES)}, `buffer NAME`, `bytes NAME`, "
        f"or {', '.join(SCALARS)} with a sweep's name or a value; not {node.text('it')!r}",
    )


def _buffer(node: YamlNode) -> Buffer:
    known = {"least", "times_l2", "sweep", "per", "fill", "type", "stride", "window"}
    entry = Fields(node, "a buffer", known)
    fill = entry.choice("fill", FILLS)
    if (fill == "chase") != ("stride" in entry):
        raise BrokenSpec(node.place, "fill chase needs a stride; the others have none")
    return Buffer(
        size=None if "sweep" in entry else _size(entry),
        sweep=entry.text("sweep") if "sweep" in entry else None,
        per=entry.choice("per", SHARES, "grid"),
        fill=fill,
        type=entry.choice("type", TYPES, "bits"),
        stride=_stride(entry.required("stride")) if "stride" in entry else None,
        window_bytes=entry.optional_amount("window", "B"),
    )


def _size(entry: Fields) -> Size:
    least = entry.amount("least", "B", 0.0)
    times_l2 = entry.number("times_l2") if "times_l2" in entry else 0.0
    if least <= 0 and times_l2 <= 0:
        raise BrokenSpec(entry.tree.place, "a size needs least, times_l2 or both, above zero")
    return Size(least, times_l2)


def _stride(node: YamlNode) -> float | str:
    text = node.text("stride")
    return text if text.isidentifier() else amount(node, "stride", "B")


def parse_sweeps(node: YamlNode | None) -> dict[str, Sweep]:
    """Read `sweep:`: run-time variables, each a list or a range of sizes."""
    return {name: _sweep(child, name) for name, child in node.mapping("sweep").items()} if node else {}


def sweep_values(sweeps: Mapping[str, Sweep]) -> dict[str, tuple[str, ...]]:
    """Return the values of sweeps as a condition may name them: whole numbers in base units."""
    return {name: tuple(f"{round(value)}" for value in sweep.values) for name, sweep in sweeps.items()}


def _sweep(node: YamlNode, name: str) -> Sweep:
    if isinstance(node.value, tuple):
        return Sweep(tuple(_number_or_size(item, name) for item in node.value))
    entry = Fields(node, f"sweep {name}", {"first", "last", "per_doubling"})
    first, last = (_size(Fields(entry.required(key), key, {"least", "times_l2"})) for key in ("first", "last"))
    return Sweep((), first, last, per_doubling=entry.whole("per_doubling"))


def _number_or_size(node: YamlNode, what: str) -> float:
    """Read a plain number, or a size such as "4 KiB"."""
    return amount(node, what, "B") if node.text(what).endswith("B") else number(node, what)


def _launch(node: YamlNode, parameters: Parameters) -> LaunchShapes:
    known = {"block", "blocks_per_sm", "grid", "shared", "carveout", "cluster", "cooperative"}
    entry = Fields(node, "launch", known)
    if ("grid" in entry) == ("blocks_per_sm" in entry):
        raise BrokenSpec(node.place, "launch must give either blocks_per_sm or grid")
    if "block" not in entry:
        raise BrokenSpec(node.place, "launch must give block, the threads per block")
    blocks = entry.node("blocks_per_sm")
    every = blocks is not None and blocks.value == "all"
    carveout = entry.optional_amount("carveout", "%")
    return LaunchShapes(
        block=tuple(parse_product(item, "block", parameters) for item in entry.entries("block")),
        blocks_per_sm=ALL_BLOCKS if every else entry.wholes("blocks_per_sm") if blocks is not None else (),
        all_blocks=every,
        grid=entry.wholes("grid") if "grid" in entry else None,
        shared_bytes=_product(entry, "shared", parameters, 0),
        carveout=carveout / 100 if carveout is not None else None,
        cluster=_product(entry, "cluster", parameters, 1),
        cooperative=entry.flag("cooperative"),
    )


def _product(entry: Fields, key: str, parameters: Parameters, otherwise: int) -> IntegerProduct:
    node = entry.node(key)
    return parse_product(node, key, parameters) if node else IntegerProduct((otherwise,))


def _work(node: YamlNode, parameters: Parameters) -> IterationWork:
    entry = Fields(node, "work", {"per", "iteration"})
    iteration = Fields(entry.required("iteration"), "iteration", set(WORK))
    amounts = tuple((what, parse_product(iteration.required(what), what, parameters)) for what in iteration)
    return IterationWork(entry.choice("per", SHARES), amounts)
