"""Parse the limits of `gpuprof check --fail-on`: `registers:64`, `gemm=spills`, `uncoalesced-global:high`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.gate.limits import GateLimit, WrittenLimit, fraction_of, split_limit, without_contradiction
from gpuprof.errors import UsageError
from gpuprof.model.field_types import SEVERITIES, Severity
from gpuprof.review.registry import CODE_RULES, FILE_RULES

OPTION = "--fail-on"
_NUMBER = re.compile(r"[0-9]{1,9}")


class LimitedValue(NamedTuple):
    """A value of a kernel that can be limited. `example` is an example amount; empty if the limit takes none."""

    name: str
    example: str = ""
    needs_base: bool = False

    @property
    def is_relative(self) -> bool:
        """Return whether the amount is a percentage."""
        return self.example.endswith("%")


LIMITED = {
    "spills": LimitedValue("spilled-bytes"),
    "registers": LimitedValue("registers", "64"),
    "occupancy": LimitedValue("occupancy", "50%"),
    "sectors": LimitedValue("sectors-per-request", "4"),
    "instructions": LimitedValue("instructions", "5%", needs_base=True),
    "conflicts": LimitedValue("wavefronts-per-request", needs_base=True),
}
"""Limited values by the name of the limit. All other limits are named by the id of a rule."""
OF_FILES = frozenset(rule.id for rule in FILE_RULES)
"""Limits on files, not kernels."""


class CodeLimit(GateLimit, frozen=True):
    """A limit on compiled kernels: a maximum, the minimum of occupancy, or findings from a severity on.

    With a base, `of_change` is true and `most` is the allowed increase, or the allowed decrease of occupancy.
    """

    level: Severity = "info"
    of_change: bool = False


def code_limits(texts: Iterable[str], *, has_base: bool) -> tuple[CodeLimit, ...]:
    """Parse limits. Raises UsageError for an invalid one, and for two that contradict each other."""
    hint = "write [KERNEL=]LIMIT, such as spills, registers:64 or uncoalesced-global:high"
    return without_contradiction([_limit(split_limit(text, OPTION, hint), has_base) for text in texts], OPTION)


def _limit(written: WrittenLimit, has_base: bool) -> CodeLimit:
    limit = CodeLimit(written.text, written.quantity, 0.0, written.pattern, of_change=has_base)
    value = LIMITED.get(written.quantity)
    if value is None:
        return replace(limit, level=_level(written))
    if value.needs_base and not has_base:
        raise UsageError(f"{written.shown} is about a change", "name the build to compare with: --base OLD")
    if written.amount is None and (has_base or not value.example):
        return limit
    if written.amount is not None and value.is_relative:
        most = fraction_of(written)
        if written.quantity == "occupancy" and most > 1:
            raise UsageError(f"{written.shown}: occupancy is 100 % at most", f"write occupancy:{value.example}")
        return replace(limit, most=most)
    example = ":".join(filter(None, (written.quantity, value.example)))
    if written.amount is None:
        raise UsageError(
            f"{written.shown} has no amount", f"write {example}, or name a build to compare with: --base OLD"
        )
    if not value.example or not _NUMBER.fullmatch(written.amount):
        raise UsageError(f"{written.shown}: {written.amount!r:.40} is not its amount", f"write {example}")
    return replace(limit, most=float(written.amount))


def _level(written: WrittenLimit) -> Severity:
    """Return the least severity of a limit on findings of a rule."""
    names = [*LIMITED, *(rule.id for rule in CODE_RULES), *(rule.id for rule in FILE_RULES)]
    if written.quantity not in names:
        near = get_close_matches(written.quantity.lower(), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"{written.shown}: unknown limit {written.quantity!r:.80}", hint)
    if written.quantity in OF_FILES and written.pattern is not None:
        rest = written.text.rpartition("=")[2].strip()
        raise UsageError(f"{written.shown}: {written.quantity} is about files, not kernels", f"write {rest}")
    for level in SEVERITIES:
        if written.amount == level or (written.amount is None and level == "info"):
            return level
    hint = f"write {written.quantity}:high, :medium or :low"
    raise UsageError(f"{written.shown}: {written.amount!r:.40} is no severity", hint)
