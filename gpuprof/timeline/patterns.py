"""Which patterns of launches each kernel of traces is a part of. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from gpuprof.model.patterns import AttentionPart, ChainPart, Patterns
from gpuprof.model.session import KernelProfile
from gpuprof.timeline.attention import attention_of
from gpuprof.timeline.chains import chains_of
from gpuprof.timeline.sequences import sequences_of
from gpuprof.timeline.trace import Activity, Trace

AnyPart = TypeVar("AnyPart", AttentionPart, ChainPart)


def patterns_of(
    traces: Sequence[Trace], ids: Mapping[int, int], kernels: Iterable[KernelProfile]
) -> dict[int, Patterns]:
    """Return the patterns of kernels by their ids; `ids` are those of the kernels by the identity of launches."""
    attention: defaultdict[int, list[tuple[Activity, AttentionPart]]] = defaultdict(list)
    chains: defaultdict[int, list[tuple[Activity, ChainPart]]] = defaultdict(list)
    for launches in chain.from_iterable(map(sequences_of, traces)):
        parts = {id(launch.activity): (launch.activity, part) for launch, part in attention_of(launches)}
        for number, found in parts.items():
            attention[ids[number]].append(found)
        for launch, part in chains_of(launches, parts):
            chains[ids[id(launch.activity)]].append((launch.activity, part))
    return {
        kernel.id: Patterns(_together(attention[kernel.id], kernel), _together(chains[kernel.id], kernel))
        for kernel in kernels
        if kernel.id in attention or kernel.id in chains
    }


def _together(parts: Sequence[tuple[Activity, AnyPart]], kernel: KernelProfile) -> AnyPart | None:
    """Return the part of the longest launch, with the share of the time of all; None without any time."""
    times_s = [activity.duration_s or 0.0 for activity, _ in parts]
    if not kernel.time_total_s or not parts:
        return None
    _, longest = parts[times_s.index(max(times_s))]
    share = sum(time_s * part.share for time_s, (_, part) in zip(times_s, parts, strict=True)) / kernel.time_total_s
    return replace(longest, share=min(1.0, share))
