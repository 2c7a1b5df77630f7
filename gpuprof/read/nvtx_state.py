"""The NVTX ranges around a profiled launch, out of the state that its message carries.

NvtxState: Domains = 1 (Id = 1, Name = 2), Threads = 2 (TID = 1, PushPopDomains = 2), StartEndDomains = 3; a domain of
either kind: Id = 1, its ranges = 3. The name of a pushed range is field 1, that of a started one field 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.protobuf import FieldValue, as_text, fields

_DOMAINS, _THREADS, _START_END = 1, 2, 3
_ID, _DOMAIN_NAME = 1, 2
_RANGES = 3
_PUSHED_NAME, _STARTED_NAME = 1, 2
_DEFAULT = ("", "<default domain>")


def nvtx_ranges(state: bytes, thread: int | None) -> tuple[str, ...]:
    """Return the names of the ranges of a thread, outermost first, the default domain unprefixed.

    Raises Malformed where the state does not parse.
    """
    parts = _all(state)
    threads = ((_all(entry), entry) for entry in parts.get(_THREADS, ()) if isinstance(entry, bytes))
    own = next((fields_of for fields_of, _ in threads if _number(fields_of, 1) == thread), {})
    pushed = _by_domain(own.get(2, []), _PUSHED_NAME)
    started = _by_domain(parts.get(_START_END, []), _STARTED_NAME)
    names: list[str] = []
    for domain in parts.get(_DOMAINS, ()):
        entry = _all(domain) if isinstance(domain, bytes) else {}
        number, title = _number(entry, _ID), _text(entry, _DOMAIN_NAME)
        prefix = "" if title in _DEFAULT else f"{title}:"
        own_names = (*pushed.get(number, ()), *started.get(number, ()))
        names.extend(prefix + readable_range(name) for name in own_names)
    return tuple(names)


def _by_domain(entries: list[FieldValue], name: int) -> Mapping[int | None, list[str]]:
    """Return the names of the ranges of each domain; of a domain that is there twice, those of the first."""
    domains: dict[int | None, list[str]] = {}
    for entry in entries:
        parts = _all(entry) if isinstance(entry, bytes) else {}
        domains.setdefault(_number(parts, _ID), list(_names(parts.get(_RANGES, []), name)))
    return domains


def _names(ranges: list[FieldValue], name: int) -> Iterator[str]:
    for entry in ranges:
        if isinstance(entry, bytes):
            yield _text(_all(entry), name)


def _all(message: bytes) -> dict[int, list[FieldValue]]:
    """Return the values of all fields by number."""
    values: dict[int, list[FieldValue]] = {}
    for field, value, _ in fields(message, 0):
        values.setdefault(field, []).append(value)
    return values


def _number(parts: Mapping[int, list[FieldValue]], field: int) -> int | None:
    value = parts[field][-1] if field in parts else None
    return value if isinstance(value, int) else None


def _text(parts: Mapping[int, list[FieldValue]], field: int) -> str:
    value = parts[field][-1] if field in parts else b""
    return as_text(value) if isinstance(value, bytes) else ""
