"""Limits of the gate as they are written: `time:3%`, `registers`, `gemm=instructions:1%`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

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


Limit = TypeVar("Limit", bound=GateLimit)


def limits_of(texts: Sequence[str], option: str = "--fail-on") -> tuple[GateLimit, ...]:
    """Parse limits. Raises UsageError for an invalid one, and for two that contradict each other."""
    return without_contradiction([limit_of(text, option) for text in texts], option)


def without_contradiction(limits: Iterable[Limit], option: str) -> tuple[Limit, ...]:
    """Return each limit once. Raises UsageError for two that contradict each other."""
    decided: dict[tuple[str | None, str], Limit] = {}
    for limit in limits:
        other = decided.setdefault((limit.pattern, limit.quantity), limit)
        if other.text != limit.text:
            raise UsageError(
                f"{option}: {other.text!r:.80} and {limit.text!r:.80} contradict each other",
                "keep one",
            )
    return tuple(decided.values())


def limit_of(text: str, option: str = "--fail-on") -> GateLimit:
    """Parse a limit. The part before the last = names kernels, as --kernel does."""
    written = split_limit(text, option, f"write {WRITTEN}, such as time:3%")
    quantity = written.quantity
    _check_quantity(quantity, written.shown)
    if written.pattern is not None and quantity == TOTAL_TIME:
        raise UsageError(
            f"{written.shown}: {TOTAL_TIME} is of all kernels", f"time is of each: {written.pattern}=time:3%"
        )
    most = fraction_of(written) if written.amount is not None else 0.0
    return GateLimit(written.text, quantity, most, pattern=written.pattern)


class WrittenLimit(NamedTuple):
    """The parts of a limit as text; `amount` is None without a colon. `shown` begins a message about it."""

    text: str
    shown: str
    pattern: str | None
    quantity: str
    amount: str | None


def split_limit(text: str, option: str, hint: str) -> WrittenLimit:
    """Split `[KERNEL=]QUANTITY[:AMOUNT]`. Raises UsageError if a part is empty or KERNEL is no expression."""
    text = text.strip()
    shown = f"{option} {text!r:.80}"
    pattern, equals, rest = (part.strip() for part in text.rpartition("="))
    quantity, colon, amount = (part.strip() for part in rest.partition(":"))
    if not quantity:
        raise UsageError(f"{shown} names no quantity", hint)
    if equals and not pattern:
        raise UsageError(f"{shown} names no kernel before =", f"{rest} is for every kernel")
    if equals:
        name_patterns([pattern], option)
    return WrittenLimit(text, shown, pattern if equals else None, quantity, amount if colon else None)


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


def fraction_of(written: WrittenLimit) -> float:
    """Return the percentage of a limit as a fraction. Raises UsageError if it is none."""
    percent = written.amount or ""
    number = percent.removesuffix("%").strip()
    quantity = written.text[: written.text.rindex(":")]
    if number.startswith(("-", "−")):
        raise UsageError(f"{written.shown}: a limit is 0 % or more", f"write {quantity}:3%")
    if not _PERCENT.fullmatch(number) or not math.isfinite(float(number)):
        raise UsageError(f"{written.shown}: {percent!r:.40} is not a percentage", f"write {quantity}:3%")
    if not percent.endswith("%"):
        raise UsageError(f"{written.shown}: {percent!r:.40} has no %", f"write {quantity}:{number}%")
    return float(number) / 100
