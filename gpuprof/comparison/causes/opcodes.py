"""Opcodes that make up a change of the instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.comparison.causes.time_model import Counts, Reason
from gpuprof.comparison.contract import KernelChange, SideName
from gpuprof.comparison.values import Values, known
from gpuprof.comparison.work.counts import OPCODES
from gpuprof.model.sass_opcodes import may_write_memory

_NOTED = 0.01
"""An opcode is listed if its change is at least this fraction of all instructions; with a meaning, a fifth of it."""
_MOST = 3
_FP64 = ("DFMA", "DMUL", "DADD")
_PER_DIVISION = 3
"""A division in FP64 takes at least so many FP64 instructions beside its MUFU: a step of Newton's method, and more."""
MEANINGS = {
    "MUFU": "reciprocals, roots", "CALL": "calls", "LDL": "local loads", "STL": "local stores", "LDS": "shared loads",
    "STS": "shared stores", "LDG": "global loads", "STG": "global stores", "BAR": "barriers", "ATOM": "atomics",
    "ATOMG": "global atomics", "ATOMS": "shared atomics", "RED": "reductions", "SHFL": "shuffles",
    "F2F": "conversions", "I2F": "conversions", "F2I": "conversions", "LDGSTS": "asynchronous copies",
    "HMMA": "tensor cores", "IMMA": "tensor cores", "DMMA": "tensor cores", "HGMMA": "tensor cores",
    "QGMMA": "tensor cores", "IGMMA": "tensor cores", "UTCHMMA": "tensor cores", "UTCQMMA": "tensor cores",
}  # fmt: skip
"""Meanings of opcodes whose names do not say it. CUDA Binary Utilities, "Instruction Set Reference"."""
STORES = "stores"
"""The mechanism of the cause that one side alone stores."""


def side_without_stores(counts: Counts) -> SideName | None:
    """Return the side that stores nothing while the other one does: it computes nothing.

    None if both store, neither does, or the opcodes of a side are not known.
    """
    stores = known(counts.get("global-store-requests"))
    if stores is None or (stores.base > 0) == (stores.new > 0):
        return None
    side: SideName = "new" if stores.base > 0 else "base"
    is_known = False
    for name, count in counts.items():
        if name.startswith(OPCODES) and may_write_memory(name.removeprefix(OPCODES)):
            written = known(count)
            is_known = is_known or written is not None
            if written is not None and getattr(written, side) > 0:
                return None
    return side if is_known else None


def has_lost_effect(change: KernelChange) -> bool:
    """Return whether one side of a compared kernel stores nothing, and the other one does."""
    return any(cause.mechanism == STORES for cause in change.causes)


def opcode_reasons(counts: Counts, effect: float, *, fp64_binds: bool) -> Iterator[Reason]:
    """Yield the opcodes that moved most; `effect` is that of the change of all instructions.

    Divisions come first if `fp64_binds`: the pipe that they keep busy binds the slower side.
    """
    opcodes = dict(_opcodes(counts))
    whole = max(
        sum(values.base for values in opcodes.values()),
        sum(values.new for values in opcodes.values()),
    )
    listed = [opcode for opcode, values in opcodes.items() if _is_notable(opcode, values, whole)]
    listed.sort(key=lambda opcode: -_significance(opcode, opcodes[opcode]))
    listed = listed[:_MOST]
    if not listed:
        return
    if _has_divisions(opcodes):
        yield Reason(
            "opcodes",
            (opcodes["MUFU"].named(f"{OPCODES}MUFU"),),
            effect=_if_same_sign(effect, _change(opcodes["MUFU"])),
            certainty="inferred",
            kind="fp64-divisions",
            first=fp64_binds,
        )
        listed = [opcode for opcode in listed if opcode != "MUFU"]
    if listed:
        moves = sum(_change(opcodes[opcode]) for opcode in listed)
        values = tuple(opcodes[opcode].named(f"{OPCODES}{opcode}") for opcode in listed)
        yield Reason("opcodes", values, _if_same_sign(effect, moves))


def _if_same_sign(effect: float, change: float) -> float:
    return effect if effect * change > 0 else 0.0


def _change(values: Values) -> float:
    return values.new - values.base


def _opcodes(counts: Counts) -> Iterator[tuple[str, Values]]:
    """Yield every opcode of both sides. One that only a side has was not executed on the other, if that has any."""
    opcodes = [change for name, change in counts.items() if name.startswith(OPCODES)]
    if all(change.base is None for change in opcodes) or all(change.new is None for change in opcodes):
        return
    for change in opcodes:
        values = Values(change.base or 0.0, change.new or 0.0)
        if change.word in ("less", "more", "only-base", "only-new") or values.base == values.new:
            yield change.name.removeprefix(OPCODES), values


def _is_notable(opcode: str, values: Values, whole: float) -> bool:
    least = _NOTED / 5 if opcode in MEANINGS else _NOTED
    return whole > 0 and abs(_change(values)) / whole >= least


def _significance(opcode: str, values: Values) -> float:
    """Rank an opcode: by its change, absolute and relative; one with a meaning counts more."""
    return abs(_change(values)) * abs(values.log_ratio) * (3.0 if opcode in MEANINGS else 1.0)


def _has_divisions(opcodes: Mapping[str, Values]) -> bool:
    """Return whether FP64 divisions or roots came or went: a MUFU each, and FP64 instructions."""
    change = _change(opcodes["MUFU"]) if "MUFU" in opcodes else 0.0
    fp64 = sum(_change(opcodes[opcode]) for opcode in _FP64 if opcode in opcodes)
    return fp64 * change > 0 and abs(fp64) >= _PER_DIVISION * abs(change)
