"""Limits of the gate as they are written: `time:3%`, `registers`, `gemm=instructions:1%`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from gpuprof.errors import UsageError
from gpuprof.hardware.specs import PATHS
from gpuprof.model.kernel_match import name_patterns

TIME, TOTAL_TIME, OCCUPANCY = "time", "total-time", "occupancy"
COUNTS = (
    "instructions", "thread-instructions", "dram-bytes", "l2-bytes", "l1-bytes", "global-load-requests",
    "global-store-requests", "global-load-sectors", "global-store-sectors", "local-load-sectors", "local-store-sectors",
    "l2-sectors", "shared-wavefronts", "bank-conflicts", "registers", "spills", "shared-memory", OCCUPANCY, "launches",
)  # fmt: skip
"""Counts that a limit can be about, besides `flop.PATH` and `opcode.NAME`."""
QUANTITIES = (TIME, TOTAL_TIME, *COUNTS)
WRITTEN = "[KERNEL=]QUANTITY[:PERCENT%]"
_MEANT = {
    "duration": TIME, "cycles": TIME, "runtime": TIME, "total": TOTAL_TIME, "inst": "instructions",
    "bytes": "dram-bytes", "dram": "dram-bytes", "l2": "l2-bytes", "l1": "l1-bytes", "regs": "registers",
    "spill": "spills", "smem": "shared-memory", "flop": "flop.fp32", "flops": "flop.fp32", "opcode": "opcode.MUFU",
}  # fmt: skip
"""Other names of quantities."""
_PERCENT = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_OPCODE = re.compile(r"opcode\.[A-Z][A-Z0-9_]*")


class GateLimit(Struct, frozen=True):
    """A limit of --fail-on: `time:3%` for all kernels, or for those that a pattern names.

    `quantity` is time, total-time or the name of a count. `most` is the allowed rise, as a
    fraction; of occupancy, the fall.
    """

    text: str
    quantity: str
    most: float
    pattern: str | None = None


def limits_of(texts: Sequence[str], option: str = "--fail-on") -> tuple[GateLimit, ...]:
    """Parse limits. Raises UsageError for an invalid one, and for two that contradict each other."""
    limits: dict[tuple[str | None, str], GateLimit] = {}
    for limit in [limit_of(text, option) for text in texts]:
        other = limits.setdefault((limit.pattern, limit.quantity), limit)
        if other.text != limit.text:
            raise UsageError(
                f"{option}: {other.text!r:.80} and {limit.text!r:.80} contradict each other",
                "keep one",
            )
    return tuple(limits.values())


def limit_of(text: str, option: str = "--fail-on") -> GateLimit:
    """Parse a limit. The part before the last = names kernels, as --kernel does."""
    text = text.strip()
    shown = f"{option} {text!r:.80}"
    pattern, equals, rest = text.rpartition("=")
    quantity, colon, percent = (part.strip() for part in rest.partition(":"))
    if not quantity:
        raise UsageError(f"{shown} names no quantity", f"write {WRITTEN}, such as time:3%")
    _check_quantity(quantity, shown)
    if equals and not pattern.strip():
        raise UsageError(f"{shown} names no kernel before =", f"{rest} is for every kernel")
    if equals and quantity == TOTAL_TIME:
        raise UsageError(f"{shown}: {TOTAL_TIME} is of all kernels", f"time is of each: {pattern}=time:3%")
    if equals:
        name_patterns([pattern.strip()], option)
    most = _fraction(percent, text, shown) if colon else 0.0
    return GateLimit(text, quantity, most, pattern=pattern.strip() if equals else None)


def _check_quantity(quantity: str, shown: str) -> None:
    kind, _, name = quantity.partition(".")
    if quantity in QUANTITIES or _OPCODE.fullmatch(quantity) or (kind == "flop" and name in PATHS):
        return
    lower = quantity.lower()
    opcode = f"opcode.{name.upper()}"
    if kind.lower() == "opcode" and _OPCODE.fullmatch(opcode):
        near = [opcode]
    elif lower in _MEANT:
        near = [_MEANT[lower]]
    else:
        near = get_close_matches(lower, [*QUANTITIES, *(f"flop.{path}" for path in PATHS)], n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(QUANTITIES)}, flop.PATH and opcode.NAME"
    raise UsageError(f"{shown}: unknown quantity {quantity!r:.80}", hint)


def _fraction(percent: str, text: str, shown: str) -> float:
    number = percent.removesuffix("%").strip()
    quantity = text[: text.rindex(":")]
    if number.startswith(("-", "−")):
        raise UsageError(f"{shown}: a limit is 0 % or more", f"write {quantity}:3%")
    if not _PERCENT.fullmatch(number) or not math.isfinite(float(number)):
        raise UsageError(f"{shown}: {percent!r:.40} is not a percentage", f"write {quantity}:3%")
    if not percent.endswith("%"):
        raise UsageError(f"{shown}: {percent!r:.40} has no %", f"write {quantity}:{number}%")
    return float(number) / 100
