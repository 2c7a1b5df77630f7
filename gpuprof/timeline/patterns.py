"""Which patterns of launches each kernel of traces is a part of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from gpuprof.model.groups import by_key
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
    in_attention: list[tuple[Activity, AttentionPart]] = []
    in_chains: list[tuple[Activity, ChainPart]] = []
    for launches in chain.from_iterable(map(sequences_of, traces)):
        parts = {id(activity): (activity, part) for activity, part in attention_of(launches)}
        in_attention.extend(parts.values())
        in_chains.extend(chains_of(launches, parts))
    attention = by_key((ids[id(found[0])], found) for found in in_attention)
    chains = by_key((ids[id(found[0])], found) for found in in_chains)
    return {
        kernel.id: Patterns(_together(attention.get(kernel.id), kernel), _together(chains.get(kernel.id), kernel))
        for kernel in kernels
        if kernel.id in attention or kernel.id in chains
    }


def _together(parts: Sequence[tuple[Activity, AnyPart]] | None, kernel: KernelProfile) -> AnyPart | None:
    """Return the part of the longest launch, with the share of the time of all; None without any time."""
    if not kernel.time_total_s or not parts:
        return None
    _, longest = max(parts, key=lambda found: found[0].duration_s or 0.0)
    time_s = sum((activity.duration_s or 0.0) * part.share for activity, part in parts)
    return replace(longest, share=min(1.0, time_s / kernel.time_total_s))
