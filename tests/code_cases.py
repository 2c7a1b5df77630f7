"""The only kernel of a source, compiled for tests of `gpuprof check`, with a launch and the names of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import KnownLaunch
from tests.reviewed_code import BLOCK, compiled_cases

Dims = tuple[int, int, int]


def case_of(
    source: str,
    target: str = "sm_90",
    *,
    block: Dims | None = BLOCK,
    names: tuple[str | None, ...] = (),
    arguments: Mapping[int, int] | None = None,
) -> CodeFacts:
    """The first kernel of a source as the rules see it."""
    known = next(iter(compiled_cases(source, target).values()))
    shape = KnownLaunch(block=block, arguments=arguments or {})
    return replace(known, kernel=replace(known.kernel, shape=shape, argument_names=names))
