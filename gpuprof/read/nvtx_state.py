"""The NVTX ranges around a profiled launch, out of the state that its message carries.

NvtxState: Domains = 1 (Id = 1, Name = 2), Threads = 2 (TID = 1, PushPopDomains = 2), StartEndDomains = 3; a domain of
either kind: Id = 1, its ranges = 3. The name of a pushed range is field 1, that of a started one field 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuprof.model.torch_ranges import MARK, readable_range
from gpuprof.read.protobuf import all_bytes, by_number, last_number, last_text

_DOMAINS, _THREADS, _START_END = 1, 2, 3
_ID, _DOMAIN_NAME = 1, 2
_THREAD, _PUSHED = 1, 2
_RANGES = 3
_PUSHED_NAME, _STARTED_NAME = 1, 2
_DEFAULT = ("", "<default domain>")


def nvtx_ranges(state: bytes, thread: int | None) -> tuple[str, ...]:
    """Return the names of the ranges of a thread, outermost first, the default domain unprefixed.

    Raises Malformed where the state does not parse.
    """
    parts = by_number(state)
    threads = map(by_number, all_bytes(parts, _THREADS))
    own = next((entry for entry in threads if last_number(entry, _THREAD) == thread), {})
    pushed = _by_domain(all_bytes(own, _PUSHED), _PUSHED_NAME)
    started = _by_domain(all_bytes(parts, _START_END), _STARTED_NAME)
    names: list[str] = []
    for domain in map(by_number, all_bytes(parts, _DOMAINS)):
        number = last_number(domain, _ID)
        own_names = (*pushed.get(number, ()), *started.get(number, ()))
        names.extend(names_in_domain(last_text(domain, _DOMAIN_NAME), own_names))
    return tuple(names)


def names_in_domain(domain: str, names: Iterable[str]) -> Iterator[str]:
    """Yield names of ranges as gpuprof writes them: behind that of their domain, unless it is the default one.

    gpuprof's own mark is left out.
    """
    prefix = "" if domain in _DEFAULT else f"{domain}:"
    return (prefix + readable_range(name) for name in names if name != MARK)


def _by_domain(entries: Iterable[bytes], name: int) -> Mapping[int | None, list[str]]:
    """Return the names of the ranges of each domain; of a domain that is there twice, those of the first."""
    domains: dict[int | None, list[str]] = {}
    for entry in map(by_number, entries):
        ranges = map(by_number, all_bytes(entry, _RANGES))
        domains.setdefault(last_number(entry, _ID), [last_text(parts, name) for parts in ranges])
    return domains
