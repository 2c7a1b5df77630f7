"""What NVIDIA's rules said of a launch, from the `RuleResult` messages of its report.

Field numbers are those of RuleResults.proto, which NVIDIA ships in `extras/FileFormat` of Nsight Compute. A rule has a
body of items; each item is a finding, with a message (text, type, title) and an estimate of the speed-up where it has
them. Where a field occurs twice the later one holds, and parts of messages are joined, as protocol buffers have it.
"""

from __future__ import annotations

import math
import struct

from gpuprof.model.recorded import RuleResult
from gpuprof.read.protobuf import Malformed, all_bytes, by_number, last_text

_RULE, _RULE_NAME, _BODY, _SECTION = 1, 2, 3, 4
_ITEM = 1
_ITEM_MESSAGE, _ITEM_SPEEDUP = 1, 10
_TEXT, _TYPE, _TITLE = 1, 2, 4
_SPEEDUP_SCOPE, _SPEEDUP_PERCENT = 1, 2
_KINDS = {0: "none", 1: "ok", 2: "warning", 3: "error", 4: "optimization"}
_SCOPES = {1: "local", 2: "global"}
_DOUBLE_BYTES = 8


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
