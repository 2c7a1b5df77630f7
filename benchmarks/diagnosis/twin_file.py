"""Reads the gate of a case: what the code of each of its kernels must look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.diagnosis.case import FIXED, SLOW, Bound, Twin
from gpuprof.characterize.probes.gate_file import CODE_RULES, parse_condition, parse_rules
from gpuprof.characterize.probes.probe import Condition, GateRules
from gpuprof.hardware.yaml_fields import Fields, number
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode

BY_OPCODE = ("sectors", "ways")
PLAIN = ("registers", "local", "shared", "code", "self_moves", "waves", "blocks_per_sm")
_START = GateRules(
    within="function",
    required=(),
    forbidden=(),
    allowed=(),
    no_zero_operands=(),
    chained=(),
    together=(),
    chains=(),
    emulated_by=(),
)

Gate = Mapping[str, tuple[tuple[Condition, Twin], ...]]


def parse_gate(node: YamlNode, targets: tuple[str, ...], entries: tuple[str, ...]) -> Gate:
    """Read `gate:`. What is said of `slow` must differ from what is said of `fixed`."""
    entry = Fields(node, "gate", {*entries, "overrides"})
    base = {name: _twin(entry.required(name), base=True) for name in entries}
    if SLOW in base and base[SLOW] == base[FIXED]:
        raise BrokenSpec(node.place, "slow and fixed have the same gate: it cannot tell them apart")
    laid_on = [_override(item, targets, entries) for item in entry.items("overrides")]
    return {
        name: (
            (Condition(), base[name]),
            *((condition, change[name]) for condition, change in laid_on if name in change),
        )
        for name in entries
    }


def _override(node: YamlNode, targets: tuple[str, ...], entries: tuple[str, ...]) -> tuple[Condition, dict[str, Twin]]:
    entry = Fields(node, "an override", {*entries, "architectures"})
    condition = parse_condition(entry, targets, {})
    return condition, {name: _twin(entry.required(name), base=False) for name in entries if name in entry}


def _twin(node: YamlNode, *, base: bool) -> Twin:
    entry = Fields(node, "a kernel's gate", {*CODE_RULES, *BY_OPCODE, *PLAIN})
    bounds = tuple(_bounds(entry))
    said = any(key in CODE_RULES for key in entry)
    if base and not said and not bounds:
        raise BrokenSpec(node.place, "a gate must say something")
    rules = parse_rules(entry, {}) if said else None
    return Twin(_START.overlaid(rules) if rules is not None and base else rules, bounds)


def _bounds(entry: Fields) -> Iterator[Bound]:
    for what in BY_OPCODE:
        for opcode, node in entry.mapping(what).items():
            yield _bound(what, opcode, node)
    for what in PLAIN:
        bound = entry.node(what)
        if bound is not None:
            yield _bound(what, None, bound)


def _bound(what: str, opcode: str | None, node: YamlNode) -> Bound:
    if not isinstance(node.value, Mapping):
        exact = number(node, what)
        return Bound(what, opcode, low=exact, high=exact)
    entry = Fields(node, what, {"least", "most"})
    low, high = (number(entry.required(key), key) if key in entry else None for key in ("least", "most"))
    if low is None and high is None:
        raise BrokenSpec(node.place, f"{what} needs least or most")
    return Bound(what, opcode, low=low, high=high)
