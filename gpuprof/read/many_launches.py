"""What the messages of many launches say, read in several processes: each takes some launches at a time."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.errors import GpuprofError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.read.file_bytes import LARGE
from gpuprof.read.launches import FactsReader, LaunchFacts
from gpuprof.read.ncu_messages import LaunchMessages
from gpuprof.workers import Worth, done_by_workers, processes_for

_JOB_BYTES = 8 * 2**20
"""Of messages that a process splits at a time, in 40 ms."""
_WORTH = Worth(LARGE, each=2 * _JOB_BYTES)
"""Bytes of messages."""
_PATIENCE_S = 300.0


def all_facts(messages: LaunchMessages, compute_capability: str | None) -> Iterator[LaunchFacts]:
    """Yield the facts of each launch in order. Raises DamagedInput.

    Of a large report, the counters that the architecture's quantities are made of are decoded by the way.
    """
    reader, size = FactsReader(messages), sum(span.end - span.start for span in messages.spans)
    count = processes_for(size, _WORTH)
    if count < 2:
        yield from map(reader.facts, range(len(messages.spans)))
        return
    messages.expect(_counters(compute_capability))
    columns = len(messages.columns)

    def read(job: list[int]) -> list[LaunchFacts]:
        try:
            facts = [reader.facts(number) for number in job]
        except GpuprofError:  # is met again, and told, by the process that asked
            return []
        for launch in facts:
            del launch.values[columns:]
        return facts

    done: dict[int, tuple[list[int], list[LaunchFacts] | None]] = {}
    following = 0
    for job, facts in done_by_workers(_jobs(messages), read, count, lambda _: _PATIENCE_S):
        done[job[0]] = job, facts
        while following in done:
            numbers, read_there = done.pop(following)
            following += len(numbers)
            if read_there:
                for number, launch in zip(numbers, read_there, strict=True):
                    messages.adopt(number, launch.layout, launch.starts)
                    yield launch
            else:
                yield from map(reader.facts, numbers)


def _jobs(messages: LaunchMessages) -> Iterator[list[int]]:
    """Yield the numbers of launches whose messages lie one behind the other."""
    job: list[int] = []
    size = 0
    for number, span in enumerate(messages.spans):
        job.append(number)
        size += span.end - span.start
        if size >= _JOB_BYTES:
            yield job
            job, size = [], 0
    if job:
        yield job


def _counters(compute_capability: str | None) -> Iterator[str]:
    """Yield the metrics that quantities of an architecture are made of; none where that is not known."""
    arch = SpecLibrary().arch_of(compute_capability) if compute_capability is not None else None
    for chain in arch.counters.values() if arch is not None else ():
        yield from (name for link in chain for name, _ in link.terms)
