"""All that is known of a kernel: the input of the rules."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from gpuprof.diagnose.facts.l1 import L1Facts
from gpuprof.diagnose.facts.patterns import Patterns
from gpuprof.model.field_types import Confidence
from gpuprof.timeline.worst_gpu import Exposed, Pauses


class Faster(Struct, frozen=True):
    """The fastest configuration in which the kernel of another kernel did the same work.

    `facts` is its launch of median duration. `duration_s` is the longest that this launch can take
    at the clocks of the slower case. `certainty` is the confidence that the work is the same.
    """

    facts: KernelFacts
    duration_s: float
    certainty: Confidence


@dataclass
class KernelFacts(L1Facts):
    """All that is known of one kernel. Fractions are of 1; a fact that is missing is None.

    `pauses` and `exposed` are those of the timeline, if this kernel reports them. `faster` is a
    configuration in which this kernel was faster for the same work. `patterns` are those of a
    timeline that its launches are parts of.
    """

    pauses: Pauses | None = None
    exposed: tuple[Exposed, ...] = ()
    faster: Faster | None = None
    patterns: Patterns = Patterns()  # noqa: RUF009
