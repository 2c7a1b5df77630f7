"""From metrics to quantities: walks the fallback chains of an architecture until one link has all its metrics."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, Basis, Chain, ComputeKey, CounterLink, metrics_of
from gpuprof.model.recorded import LaunchDetails, MetricTable, Missing, printed_rounding
from gpuprof.model.sass_opcodes import matrix_opcode

_ZERO_REGISTER = 0xFF
_OPCODE, _HFMA2_IMMEDIATE = 0xFFF, (0x435, 0x431)
_INSTRUCTION = struct.Struct("<QQ")
COLLECT = "collect with ncu --set full, or --set roofline for work and DRAM traffic"
EXPORT_REPORT = "ncu --import FILE --csv --page raw > FILE.csv, and name that"
"""What to type if gpuprof does not understand a report."""
READ_REPORT = "the .ncu-rep may hold it, CSV and text leave out part of it; else collect with --set full"


class Counted(Struct, frozen=True):
    """A quantity in base units, how it was obtained, and from which metrics."""

    value: float
    basis: Basis
    definition: str
    metrics: tuple[str, ...]
    split: Mapping[ComputeKey, float] | None = None


class Clocks(Struct, frozen=True):
    """What turns rates into totals. None where the report does not tell.

    `sm_cycles_per_s`: what was counted over the duration, where the SM clock is another number.
    """

    duration_s: float | None = None
    sm_hz: float | None = None
    sm_cycles_per_s: float | None = None
    dram_hz: float | None = None
    dram_peak_bytes_per_s: float | None = None
    own_l2_hz: float | None = None


NO_CLOCKS = Clocks()
"""For quantities that take none."""
_FEW_DIGITS = 0.005
"""Rounding of a printed value, as a fraction of it, from which on another metric of the same definition is better."""


def evaluate(chain: Chain, what: str, metrics: MetricTable, clocks: Clocks, remedy: str = COLLECT) -> Counted | Missing:
    """Return the first link's value whose metrics are all there, or why none is; `remedy` says what would help."""
    counted = first_counted(chain, what, metrics, clocks)
    if counted is not None:
        return counted
    strange = next((name for link in chain for name in metrics_of(link) if metrics.is_strange(name)), None)
    if strange is not None:
        why = "has a form that this gpuprof does not know" if metrics.has(strange) else "was printed without a unit"
        return Missing(what, f"{strange} {why}", EXPORT_REPORT)
    return no_value(chain, what, remedy)


def first_counted(chain: Chain, what: str, metrics: MetricTable, clocks: Clocks) -> Counted | None:
    """Return the value of the first link whose metrics are all there; None if there is none.

    If a text has it with few digits, such as 0.03 for 2.96 %, return the most exact value of the same definition.
    """
    for place, link in enumerate(chain):
        counted = _evaluate_link(link, what, metrics, clocks)
        if counted is None:
            continue
        if _rounding(counted, metrics) <= _FEW_DIGITS:
            return counted
        others = (_evaluate_link(other, what, metrics, clocks) for other in chain[place + 1 :] if _is_same(link, other))
        known = [counted, *(other for other in others if other is not None)]
        return min(known, key=lambda one: _rounding(one, metrics))
    return None


def _is_same(link: CounterLink, other: CounterLink) -> bool:
    """Return whether two links have the same definition, and one metric each."""
    return (link.basis, link.definition, len(link.terms)) == (other.basis, other.definition, 1)


def _rounding(counted: Counted, metrics: MetricTable) -> float:
    """Return by how much the digits of a printed metric can be off, as a fraction of it; 0 for several metrics."""
    if len(counted.metrics) != 1:
        return 0.0
    (name,) = counted.metrics
    return printed_rounding(metrics.number(name) or 0.0, metrics.digits(name))


def absent_quantities(counters: Mapping[str, Chain], names: frozenset[str]) -> frozenset[str]:
    """Return the quantities that no launch has a value of, where these are the names of all metrics of a report."""
    return frozenset(
        what for what, chain in counters.items() if not any(names.issuperset(metrics_of(link)) for link in chain)
    )


def no_value(chain: Chain, what: str, remedy: str) -> Missing:
    """Return why a quantity has no value."""
    return _no_value(chain[0].terms, what, remedy)


@lru_cache(maxsize=1024)
def _no_value(terms: tuple[tuple[str, float], ...], what: str, remedy: str) -> Missing:
    """Write it once: many launches lack the same."""
    return Missing(what, f"the report has no value of {_wording(terms).total or WARP_OPCODES}", remedy)


class _Wording(NamedTuple):
    """The metrics of a link, and how they are written as a sum and as a product."""

    names: tuple[str, ...]
    total: str
    product: str


@lru_cache(maxsize=1024)
def _wording(terms: tuple[tuple[str, float], ...]) -> _Wording:
    names = tuple(name for name, _ in terms)
    return _Wording(names, " + ".join(names), " × ".join(names))


def _evaluate_link(link: CounterLink, what: str, metrics: MetricTable, clocks: Clocks) -> Counted | None:
    if link.how == "thread-opcodes":
        return _thread_opcodes(link, metrics)
    if link.how == "tensor-opcodes":
        return _tensor_opcodes(what.removeprefix("work."), metrics)
    if link.how == "product":
        return _product_of_powers(link, metrics)
    values = []
    for name, factor in link.terms:
        value = metrics.number(name)
        if value is None:
            return None
        values.append(factor * value)
    scale = _scale(link.how, clocks)
    if scale is None:
        return None
    total = max(values) if link.how == "largest" else sum(values)
    wording = _wording(link.terms)
    return Counted(total * scale, link.basis, link.definition or wording.total, metrics=wording.names)


def _product_of_powers(link: CounterLink, metrics: MetricTable) -> Counted | None:
    """Multiply the metrics, each to the power of its factor; None where one is missing or a divisor is zero."""
    product = 1.0
    for name, power in link.terms:
        value = metrics.number(name)
        if value is None or (value == 0 and power < 0):
            return None
        product *= value**power
    wording = _wording(link.terms)
    return Counted(product, link.basis, link.definition or wording.product, metrics=wording.names)


def _scale(how: str, clocks: Clocks) -> float | None:
    """Return what turns Σ factor × metric into the quantity; None where a clock it takes is unknown."""
    if how in ("total", "largest"):
        return 1.0
    if how == "per-second":
        return clocks.duration_s
    if how == "per-sm-cycle":
        return _product(clocks.sm_cycles_per_s or clocks.sm_hz, clocks.duration_s)
    if how == "per-dram-cycle":
        return clocks.dram_hz
    return _product(0.01, clocks.dram_peak_bytes_per_s, clocks.duration_s)


def _product(*factors: float | None) -> float | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def _thread_opcodes(link: CounterLink, metrics: MetricTable) -> Counted | None:
    histogram = metrics.instances(THREAD_OPCODES)
    if not histogram:
        return None
    total = sum(factor * histogram.get(opcode, 0.0) for opcode, factor in link.terms)
    opcodes = ", ".join(opcode for opcode, _ in link.terms)
    return Counted(total, link.basis, link.definition or f"SASS opcodes {opcodes}", metrics=(THREAD_OPCODES,))


def _tensor_opcodes(path: str, metrics: MetricTable) -> Counted | None:
    """Sum FLOP over the matrix opcodes of a path; None if the sum is not known.

    That is so if one of them hides its shape, and if a group of warps executes one: whether such an instruction is
    counted once or for each of its four warps has not been measured.
    """
    split = tensor_split(metrics)
    if split is None:
        return None
    mine = {key: flop for key, flop in split.items() if key.path == path}
    if any(flop is None or key.instruction == "wgmma" for key, flop in mine.items()):
        return None
    known = {key: flop for key, flop in mine.items() if flop is not None}
    total = float(sum(known.values()))
    return Counted(total, "counted", "matrix opcodes × shape", metrics=(WARP_OPCODES,), split=known)


def tensor_split(metrics: MetricTable) -> dict[ComputeKey, float | None] | None:
    """Return FLOP by path, accumulator and instruction from the opcode histogram; None where there is no histogram."""
    histogram = metrics.instances(WARP_OPCODES)
    if not histogram:
        return None
    split: dict[ComputeKey, float | None] = {}
    for opcode, count in histogram.items():
        matrix = matrix_opcode(str(opcode))
        if matrix is None or not count:
            continue
        before = split.get(matrix.key, 0.0)
        split[matrix.key] = before + count * matrix.flop if before is not None and matrix.flop is not None else None
    return split


def constant_moves(metrics: MetricTable, details: LaunchDetails) -> float | None:
    """Count thread instructions that only load a constant through the FP16 pipe: `HFMA2.MMA R, -RZ, RZ, a, b`.

    They do no arithmetic, yet every FP16 counter includes them. None where the report has no program to tell by. A
    listing without a gap is the kernel's; functions that it calls can lie before it.
    """
    histogram = metrics.instances(WARP_OPCODES)
    if histogram is not None and not any(str(opcode).startswith("HFMA2") for opcode in histogram):
        return 0.0
    executed = metrics.instances("thread_inst_executed_true") or {}
    listed = sorted(pc for pc in executed if isinstance(pc, int))
    alone = bool(listed) and listed[-1] - listed[0] == _INSTRUCTION.size * (len(listed) - 1)
    start = listed[0] if alone else details.code_start() if listed else None
    code = details.machine_code() if start is not None else b""
    if start is None or len(code) < _INSTRUCTION.size:
        return None
    return sum(executed.get(start + offset, 0.0) for offset in _constant_moves_in(code))


@lru_cache(maxsize=256)
def _constant_moves_in(code: bytes) -> tuple[int, ...]:
    """Return the offsets of those in a kernel's code, which its launches share."""
    whole = memoryview(code)[: len(code) // _INSTRUCTION.size * _INSTRUCTION.size]
    encoded = enumerate(_INSTRUCTION.iter_unpack(whole))
    return tuple(
        number * _INSTRUCTION.size
        for number, (low, high) in encoded
        if low & _OPCODE in _HFMA2_IMMEDIATE and is_constant_move(low | high << 64)
    )


def is_constant_move(word: int) -> bool:
    """Tell whether a 128-bit encoding is an HFMA2 with an immediate whose factors are both the zero register.

    Opcode in bits 0 to 11 (0x435 `HFMA2.MMA`, 0x431 `HFMA2`, both with an immediate), first source in bits 24 to 31,
    the other register in bits 64 to 71; register 255 is RZ. Checked against NVIDIA's disassembler on sm_80 and sm_90.
    """
    factors = word >> 24 & 0xFF, word >> 64 & 0xFF
    return word & _OPCODE in _HFMA2_IMMEDIATE and factors == (_ZERO_REGISTER, _ZERO_REGISTER)
