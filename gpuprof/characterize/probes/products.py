"""Reads a product of whole numbers and parameters: `64`, `UNROLL` or `[2, CHAINS, UNROLL]`."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.characterize.probes.probe import IntegerProduct
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode


def parse_product(node: YamlNode, what: str, parameters: Mapping[str, tuple[str, ...]]) -> IntegerProduct:
    """Read `64`, `UNROLL` or `[2, CHAINS, UNROLL]`: whole numbers and parameters that have whole values."""
    return IntegerProduct(tuple(_factor(item, what, parameters) for item in node.entries()))


def _factor(node: YamlNode, what: str, parameters: Mapping[str, tuple[str, ...]]) -> int | str:
    text = node.text(what)
    if text.isdecimal():
        return int(text)
    if text not in parameters:
        raise BrokenSpec(node.place, f"{what}: {text!r} is neither a whole number nor one of the parameters")
    if not all(value.isdecimal() for value in parameters[text]):
        raise BrokenSpec(node.place, f"{what}: the values of {text} are not whole numbers")
    return text
