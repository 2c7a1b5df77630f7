"""Reads the gate of a probe file: rules, and overrides by architecture and parameter value."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.characterize.probes.probe import (
    Condition,
    Count,
    GateRules,
    GateSpec,
    IntegerProduct,
    all_targets,
    targets_named,
)
from gpuprof.characterize.probes.products import parse_product
from gpuprof.hardware.yaml_fields import Fields
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode

Parameters = Mapping[str, tuple[str, ...]]
"""The values that each compile-time parameter may have."""

CODE_RULES = {
    "within", "required", "forbidden", "allowed", "no_zero_operands", "chained", "together", "chains", "max_overhead",
    "emulated_by", "around",
}  # fmt: skip
WITHIN = ("loop", "function")
_NO_RULES = GateRules(
    within="loop", required=(), forbidden=(), allowed=(), no_zero_operands=(), chained=(), together=(), chains=(),
    emulated_by=(), around=(),
)  # fmt: skip


def parse_gate(node: YamlNode, targets: tuple[str, ...], parameters: Parameters) -> GateSpec:
    """Read `gate:`. The base must say what is required and how much else is tolerated."""
    entry = Fields(node, "gate", {*CODE_RULES, "overrides"})
    base = _NO_RULES.overlaid(parse_rules(entry, parameters))
    if not base.required:
        raise BrokenSpec(node.place, "a gate must say which opcodes are required")
    if base.max_overhead is None:
        raise BrokenSpec(node.place, "a gate must give max_overhead: how many other instructions are tolerated")
    return GateSpec(base, tuple(_override(item, targets, parameters) for item in entry.items("overrides")))


def _override(node: YamlNode, targets: tuple[str, ...], parameters: Parameters) -> tuple[Condition, GateRules]:
    entry = Fields(node, "an override", {*CODE_RULES, "architectures", "when"})
    condition = parse_condition(entry, targets, parameters)
    if condition == Condition():
        raise BrokenSpec(node.place, "an override must say where it applies: architectures, when, or both")
    return condition, parse_rules(entry, parameters)


def parse_condition(entry: Fields, targets: tuple[str, ...], parameters: Parameters) -> Condition:
    """Read `architectures: [sm_80, sm_90..]` and `when: {WIDTH: [4, 8]}`."""
    return Condition(
        _applying(entry, targets),
        tuple((name, _values(name, item, parameters)) for name, item in entry.mapping("when").items()),
    )


def _applying(entry: Fields, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the probe's targets that the entry names. An empty answer would mean all of them."""
    named = [target for item in entry.items("architectures") for target in parse_targets(item)]
    applying = tuple(target for target in targets if target in named)
    if "architectures" in entry and not applying:
        raise BrokenSpec(entry.place("architectures"), f"none of the probe's targets; they are {', '.join(targets)}")
    return applying


def parse_targets(node: YamlNode) -> tuple[str, ...]:
    """Read a target or a range of them: `sm_90a`, `sm_80..sm_89`, `sm_100..`, `..sm_89`."""
    text = node.text("a target")
    targets = targets_named(text)
    if not targets:
        raise BrokenSpec(node.place, f"{text!r} names no target; they are {', '.join(all_targets())}")
    return targets


def _values(name: str, node: YamlNode, parameters: Parameters) -> tuple[str, ...]:
    if name not in parameters:
        raise BrokenSpec(node.place, f"{name} is not one of the parameters")
    values = tuple(item.text(f"a value of {name}") for item in node.entries())
    for value in values:
        if value not in parameters[name]:
            raise BrokenSpec(node.place, f"{value} is not one of the values of {name}")
    return values


def parse_rules(entry: Fields, parameters: Parameters) -> GateRules:
    """Read the rules that an entry gives; what it does not name is None."""
    overhead = entry.node("max_overhead")
    return GateRules(
        within=entry.choice("within", WITHIN) if "within" in entry else None,
        required=_counts(entry, "required", parameters),
        forbidden=entry.texts("forbidden"),
        allowed=entry.texts("allowed"),
        no_zero_operands=entry.texts("no_zero_operands"),
        chained=entry.texts("chained"),
        together=entry.texts("together"),
        chains=_chains(entry, parameters),
        max_overhead=parse_product(overhead, "max_overhead", parameters) if overhead else None,
        emulated_by=_counts(entry, "emulated_by", parameters),
        around=_counts(entry, "around", parameters),
    )


def _chains(entry: Fields, parameters: Parameters) -> tuple[tuple[str, IntegerProduct], ...] | None:
    if "chains" not in entry:
        return None
    return tuple(
        (opcode, parse_product(node, "chains", parameters)) for opcode, node in entry.mapping("chains").items()
    )


def _counts(entry: Fields, key: str, parameters: Parameters) -> tuple[tuple[str, Count], ...] | None:
    if key not in entry:
        return None
    return tuple((opcode, _count(item, parameters)) for opcode, item in entry.mapping(key).items())


def _count(node: YamlNode, parameters: Parameters) -> Count:
    """Read an exact count, or `{least: …, most: …}`."""
    if not isinstance(node.value, Mapping):
        exact = parse_product(node, "a count", parameters)
        return Count(exact, exact)
    entry = Fields(node, "a range", {"least", "most"})
    most = entry.node("most")
    return Count(
        parse_product(entry.required("least"), "least", parameters),
        parse_product(most, "most", parameters) if most else None,
    )
