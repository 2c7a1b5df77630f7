"""What NVIDIA's rules said of a launch, from the `RuleResult` messages of its report.

Field numbers are those of RuleResults.proto, which NVIDIA ships in `extras/FileFormat` of Nsight Compute. A rule has a
body of items; each item is a finding, with a message (text, type, title) and an estimate of the speed-up where it has
them. Where a field occurs twice the later one holds, and parts of messages are joined, as protocol buffers have it.
"""

from __future__ import annotations

import math
import struct
from itertools import chain

from msgspec import Struct

from gpuprof.model.recorded import Launch
from gpuprof.read.ncu_metrics import NcuMetrics
from gpuprof.read.protobuf import Malformed, all_bytes, by_number, last_text
from gpuprof.read.result_message import COMMAND_LIST, GRAPH, KERNEL, RANGE

_OF_RULES = {KERNEL: 19, RANGE: 20, COMMAND_LIST: 21, GRAPH: 22}
"""The field of a launch's message that has a rule's, by the form of the message."""

_RULE, _RULE_NAME, _BODY, _SECTION = 1, 2, 3, 4
_ITEM = 1
_ITEM_MESSAGE, _ITEM_SPEEDUP = 1, 10
_TEXT, _TYPE, _TITLE = 1, 2, 4
_SPEEDUP_SCOPE, _SPEEDUP_PERCENT = 1, 2
_KINDS = {0: "none", 1: "ok", 2: "warning", 3: "error", 4: "optimization"}
_SCOPES = {1: "local", 2: "global"}
_DOUBLE_BYTES = 8


class RuleResult(Struct, frozen=True):
    """One message of NVIDIA's own rules, as the report carries it."""

    rule: str
    section: str
    kind: str
    title: str
    message: str
    speedup_percent: float | None = None
    speedup_scope: str | None = None


def results_of(launch: Launch) -> tuple[RuleResult, ...]:
    """Return what NVIDIA's rules said of a launch; nothing of one that is from no report.

    Raises DamagedInput where that does not parse.
    """
    metrics = launch.metrics
    if not isinstance(metrics, NcuMetrics):
        return ()
    messages = metrics.messages
    message = messages.split(metrics.number_in_report)
    try:
        rules = [rule_results(content, base) for base, content in message.contents(_OF_RULES[message.form])]
    except Malformed as broken:
        raise messages.damaged("what a rule of NVIDIA's says", broken) from broken
    return tuple(chain.from_iterable(rules))


def rule_results(message: bytes, base: int = 0) -> tuple[RuleResult, ...]:
    """Return the findings of one rule, which may have none or several; those of a report are in the order of the file.

    Raises Malformed for bytes that do not parse, or that lack what each finding has; the message is at offset `base`.
    """
    rule = by_number(message, base)
    if not {_RULE, _RULE_NAME} <= rule.keys():
        raise Malformed(base, "a rule has no name")
    identifier, section = last_text(rule, _RULE), last_text(rule, _SECTION)
    items = by_number(b"".join(all_bytes(rule, _BODY)), base)
    return tuple(_finding(identifier, section, item, base) for item in all_bytes(items, _ITEM))


def _finding(rule: str, section: str, item: bytes, base: int) -> RuleResult:
    """Read one item. Without a message it is a finding of kind "none", as NVIDIA's reader has it."""
    parts = by_number(item, base)
    said = by_number(b"".join(all_bytes(parts, _ITEM_MESSAGE)), base)
    kinds = [value & 0xFFFFFFFF for value in said.get(_TYPE, ()) if isinstance(value, int)]
    known = [_KINDS[kind] for kind in kinds if kind in _KINDS]
    if _ITEM_MESSAGE in parts and (_TEXT not in said or not known):
        raise Malformed(base, "a message of a rule has no text or no known type")
    percent, scope = _speedup(b"".join(all_bytes(parts, _ITEM_SPEEDUP)), base)
    return RuleResult(
        rule=rule,
        section=section,
        kind=known[-1] if known else "none",
        title=last_text(said, _TITLE),
        message=last_text(said, _TEXT),
        speedup_percent=percent,
        speedup_scope=scope,
    )


def _speedup(message: bytes, base: int) -> tuple[float | None, str | None]:
    """Return percent and scope; None for what is not there, or is no number."""
    estimate = by_number(message, base)
    doubles = [value for value in all_bytes(estimate, _SPEEDUP_PERCENT) if len(value) == _DOUBLE_BYTES]
    percent: float = struct.unpack("<d", doubles[-1])[0] if doubles else math.nan
    scopes = [_SCOPES.get(value) for value in estimate.get(_SPEEDUP_SCOPE, ()) if isinstance(value, int)]
    return percent if math.isfinite(percent) else None, scopes[-1] if scopes else None
