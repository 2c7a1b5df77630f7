"""The effect of each opcode on the registers of a warp. An opcode without a rule leaves nothing known behind."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.sass.dataflow.expressions import (
    UNIFORM,
    uniform_of,
)
from gpuprof.sass.dataflow.operand_reader import OperandReader, Result, Results, Rule
from gpuprof.sass.dataflow.sum_rules import SUM_RULES
from gpuprof.sass.dataflow.word_rules import WORD_RULES
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import LANE_BY_LANE, registers_read, written
from gpuprof.sass.requests import LaneRequest, requests


def results(instruction: Instruction, reader: OperandReader) -> dict[str, Result]:
    """Return the values that an instruction writes in the lanes in which it runs."""
    writes = _by_rule(instruction, reader)
    if writes is not None:
        return dict(writes)
    unknown: dict[str, Result] = dict.fromkeys(written(instruction))
    if instruction.name in LANE_BY_LANE:
        views = (reader.symbols.lanes_of(reader.register(name)) for name in registers_read(instruction))
        unknown = dict.fromkeys(unknown, uniform_of(views))
    elif _loads_from_one_place(instruction, reader):
        unknown |= {name: UNIFORM for name in unknown if "P" not in name}
    return unknown


def _by_rule(instruction: Instruction, reader: OperandReader) -> Results | None:
    """Return the results by a rule; None also if they lack the first register that is written."""
    rule = _RULES.get(instruction.name) or _RULES.get(instruction.name.removeprefix("U"))
    try:
        writes = rule(instruction, reader) if rule else None
    except (ValueError, IndexError):  # more or fewer operands than the rule knows
        return None
    first = next((name for name in written(instruction) if "P" not in name), None)
    return writes if writes and (first is None or any(name == first for name, _ in writes)) else None


def has_rule(instruction: Instruction) -> bool:
    """Return whether the values of single lanes lead to results that are known."""
    return instruction.name != "SHFL" and (
        instruction.name in _RULES or instruction.name.removeprefix("U") in _RULES or bool(requests(instruction))
    )


def _loads_from_one_place(instruction: Instruction, reader: OperandReader) -> bool:
    """Return whether all lanes load from one address of a space in which it is the same place for all."""
    request = _load_of_a_register(instruction)
    where = reader.symbols.lanes_of(reader.address(request.operand)) if request is not None else None
    return where is not None and isinstance(where.lanes, int)


def _load_of_a_register(instruction: Instruction) -> LaneRequest | None:
    request, *more = requests(instruction) or (None,)
    if request is None or more or instruction.name == "LDSM":
        return None
    return request if request.kind == "load" and request.space in {"global", "shared"} else None


_RULES: Mapping[str, Rule] = {**SUM_RULES, **WORD_RULES}
