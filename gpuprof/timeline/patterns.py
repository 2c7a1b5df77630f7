"""Which patterns of launches each kernel of traces is a part of. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from gpuprof.model.patterns import AttentionPart, ChainPart, Patterns
from gpuprof.timeline.attention import SDPA_MATH, AttentionLaunch, attention_of
from gpuprof.timeline.chains import chains_of, is_of_optimizer, saved_share
from gpuprof.timeline.sequences import Launch, by_stream
from gpuprof.timeline.trace import KERNEL, Activity, Trace

Chain = list[list[Launch]]


def patterns_of(traces: Sequence[Trace], ids: Mapping[int, int]) -> dict[int, Patterns]:
    """Return the patterns of kernels by their ids; `ids` are those of the kernels by the identity of launches."""
    attention: defaultdict[int, list[AttentionLaunch]] = defaultdict(list)
    chains: defaultdict[int, list[tuple[Launch, Chain]]] = defaultdict(list)
    times: defaultdict[int, float] = defaultdict(float)
    for launches in chain.from_iterable(by_stream(trace.activities).values() for trace in traces):
        parts = {id(part.launch.activity): part for part in attention_of(launches)}
        for activity, part in parts.items():
            attention[ids[activity]].append(part)
        for made in chains_of(launches, without=parts):
            for launch in chain.from_iterable(made):
                chains[ids[id(launch.activity)]].append((launch, made))
        for launch in launches:
            if launch.activity.kind == KERNEL:
                times[ids[id(launch.activity)]] += launch.activity.duration_s or 0.0
    return {
        kernel: Patterns(
            _attention_part(attention[kernel], times[kernel]) if kernel in attention else None,
            _chain_part(chains[kernel], times[kernel]) if kernel in chains else None,
        )
        for kernel in {*attention, *chains}
        if times[kernel] > 0
    }


def _attention_part(parts: Sequence[AttentionLaunch], time_s: float) -> AttentionPart:
    longest = max(parts, key=lambda part: part.launch.activity.duration_s or 0.0)
    return AttentionPart(
        role=longest.role,
        scores=longest.scores,
        share=min(1.0, sum(part.launch.activity.duration_s or 0.0 for part in parts) / time_s),
        in_sdpa=any(_is_in_sdpa(part.launch.activity) for part in parts),
    )


def _is_in_sdpa(activity: Activity) -> bool:
    return activity.in_sdpa or any(text.partition(" ")[0] == SDPA_MATH for text in activity.ranges)


def _chain_part(members: Sequence[tuple[Launch, Chain]], time_s: float) -> ChainPart:
    saved_s = sum(saved_share(made) * (launch.activity.duration_s or 0.0) for launch, made in members)
    return ChainPart(
        kernels=max(len(made) for _, made in members),
        saved=min(1.0, saved_s / time_s),
        by_shapes=all(launch.shapes for launch, _ in members),
        in_optimizer=all(is_of_optimizer(launch) for launch, _ in members),
    )
