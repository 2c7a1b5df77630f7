"""The counters of one launch: numbers, sums and ratios of metrics, and opcodes; missing ones are None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpuprof.annotated.counts import opcode_of
from gpuprof.annotated.kernel_code import SeenCode
from gpuprof.hardware.specs import WARP_OPCODES, ArchSpec
from gpuprof.model.analyse import Recorded
from gpuprof.model.ceilings import Hardware
from gpuprof.model.groups import summed
from gpuprof.model.recorded import MetricTable
from gpuprof.model.session import Evidence, KernelProfile

SHARED_BUSY = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
"""Instructions that warps executed."""
ELAPSED = ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max")

Numbers = Mapping[str, float]
"""Numbers by the name of an opcode, a unit, a pipe or a cause; without those that are not known."""


@dataclass
class Counters:
    """One kernel and the metrics of its launch. A value that was not collected is None.

    `timed_only`: the kernel is of a timeline, without counters. `run_share` is the share of its
    launches in the run: with a timeline, in the time that the GPUs were traced. `seen` is shared by
    the kernels of a run.
    """

    kernel: KernelProfile
    recorded: Recorded
    timed_only: bool = False
    run_share: float | None = None
    seen: SeenCode = field(default_factory=SeenCode)
    code_error: str | None = field(default=None, init=False)
    _absent: set[str] = field(default_factory=set, init=False, repr=False)

    @cached_property
    def metrics(self) -> MetricTable:
        """The metrics of the launch."""
        return self.recorded.launch.metrics

    @property
    def hardware(self) -> Hardware:
        """The known facts of the GPU."""
        return self.recorded.hardware

    @property
    def arch(self) -> ArchSpec:
        """The known facts of the GPU's architecture."""
        return self.hardware.arch

    def number(self, *names: str) -> float | None:
        """Return the value of the first of these metrics that has a number in the report."""
        for name in names:
            value = self.metrics.number(name)
            if value is not None:
                return value
        self._absent.update(names)
        return None

    def why_missing(self, fact: str) -> tuple[str, ...]:
        """Return the metrics that a fact (the name of a property) needs and the report does not have.

        Empty if the fact is known, or missing for another reason: those are in the kernel's `missing`.
        """
        fresh = replace(self)
        if getattr(fresh, fact) is not None:
            return ()
        return tuple(sorted(fresh._absent))

    def first_of(self, names: Iterable[str]) -> str:
        """Return the first of these metrics that has a number in the report; empty if none has."""
        return next((name for name in names if self.number(name) is not None), "")

    def ratio(self, metric: str, *over: str) -> float | None:
        """Return a metric over the first known one of others; None if unknown or divided by 0."""
        value, whole = self.number(metric), self.number(*over)
        if value is None or not whole:
            return None
        return value / whole

    def total(self, names: Iterable[str], *, of_all: bool = False) -> float | None:
        """Return the sum of these metrics as far as known; None without any, or all if `of_all`."""
        values = [*map(self.number, names)]
        known = [value for value in values if value is not None]
        if not known or (of_all and None in values):
            return None
        return sum(known)

    def counters_of(self, quantity: str) -> tuple[str, ...]:
        """Return the metrics of a quantity on this architecture, best first."""
        return tuple(name for link in self.arch.counters.get(quantity, ()) for name, _ in link.terms)

    def metric(self, name: str, role: str, unit: str, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return a recorded metric as evidence; nothing if it was not recorded."""
        value = self.number(name)
        if value is None:
            return ()
        return (Evidence(name, value, unit, threshold, role=role),)

    def metrics_as(self, roles: Mapping[str, str], unit: str) -> tuple[Evidence, ...]:
        """Return the recorded ones of these metrics as evidence, with their roles."""
        return tuple(item for name, role in roles.items() for item in self.metric(name, role, unit))

    @cached_property
    def opcodes(self) -> Numbers:
        """How often warps executed each opcode, with its modifiers; empty if not collected."""
        return self._opcodes_in(WARP_OPCODES)

    def opcode_counts(self, histogram: str = WARP_OPCODES) -> Numbers:
        """Return how often each opcode was executed, without modifiers: `IMAD.MOV` counts as `IMAD`.

        The histogram decides whether it counts executions by warps or by threads; empty if not collected.
        """
        return summed((opcode.partition(".")[0], count) for opcode, count in self._opcodes_in(histogram).items())

    def _opcodes_in(self, histogram: str) -> Numbers:
        counted = self.metrics.instances(histogram) or {}
        return summed((opcode_of(str(name)), count) for name, count in counted.items())

    def executed(self, *starts: str) -> float:
        """Return how many executed instructions have opcodes with these prefixes; 0 if not counted."""
        return sum(count for name, count in self.opcodes.items() if name.startswith(starts))

    def share_of_opcodes(self, *starts: str) -> float:
        """Return the share of executed instructions with these opcode prefixes; 0 if not counted."""
        return self.executed(*starts) / (sum(self.opcodes.values()) or 1.0)
