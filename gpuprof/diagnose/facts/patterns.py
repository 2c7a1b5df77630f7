"""Patterns of a kernel's launches among the other launches of their streams, which only a timeline shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.facts.attention import AttentionPart, attention_of
from gpuprof.diagnose.facts.chains import ChainPart, chains_of
from gpuprof.model.groups import by_key
from gpuprof.model.launch_sequences import LaunchInSequence, LaunchSequence
from gpuprof.model.session import KernelProfile

AnyPart = TypeVar("AnyPart", AttentionPart, ChainPart)


class Patterns(Struct, frozen=True):
    """The patterns that a kernel's launches are parts of, of several the one in the longest launch."""

    attention: AttentionPart | None = None
    chain: ChainPart | None = None


def patterns_of(sequences: Iterable[LaunchSequence], kernels: Iterable[KernelProfile]) -> dict[int, Patterns]:
    """Return the patterns of kernels by their ids.

    If kernels may be missing between others, only names and shapes prove a pattern.
    """
    in_attention: list[tuple[LaunchInSequence, AttentionPart]] = []
    in_chains: list[tuple[LaunchInSequence, ChainPart]] = []
    for launches, is_complete in sequences:
        parts = {id(launch): (launch, part) for launch, part in attention_of(launches)}
        in_attention += [
            found for found in parts.values() if is_complete or found[1].scores is not None or found[1].in_sdpa
        ]
        if is_complete:
            in_chains.extend(chains_of(launches, parts))
    attention = by_key((found[0].kernel, found) for found in in_attention)
    chains = by_key((found[0].kernel, found) for found in in_chains)
    return {
        kernel.id: Patterns(_together(attention.get(kernel.id), kernel), _together(chains.get(kernel.id), kernel))
        for kernel in kernels
        if kernel.id in attention or kernel.id in chains
    }


def _together(parts: Sequence[tuple[LaunchInSequence, AnyPart]] | None, kernel: KernelProfile) -> AnyPart | None:
    """Return the part of the longest launch, with the share of the time of all; None without any time."""
    if not kernel.time_total_s or not parts:
        return None
    _, longest = max(parts, key=lambda found: found[0].duration_s)
    time_s = sum(launch.duration_s * part.share for launch, part in parts)
    return replace(longest, share=min(1.0, time_s / kernel.time_total_s))
