"""Facts of the code: the instructions with their counts, and the source texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from gpuprof.annotated.counts import ALL_SECTORS, EXCESS_SECTORS, EXECUTED, SAMPLES, stall_metric
from gpuprof.annotated.kernel_code import CountedCode
from gpuprof.diagnose.facts.work import WorkFacts
from gpuprof.errors import DamagedInput

FP64_SEEDS = ("MUFU.RCP64H", "MUFU.RSQ64H")
"""The first instructions of FP64 divisions and square roots."""
COUNTS = (
    SAMPLES, EXECUTED, EXCESS_SECTORS, ALL_SECTORS,
    "derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared",
    "memory_l2_theoretical_sectors_local", "smsp__branch_targets_threads_divergent",
)  # fmt: skip
"""Counts by instruction that weigh a kernel's code, beside the samples of each stall reason."""
_LEAST_STALL = 0.01
"""Samples of a stall reason with a smaller share are not located in the code."""


class CodeFacts(WorkFacts):
    """Facts from counters, and of the instructions of the kernel."""

    @cached_property
    def code(self) -> CountedCode:
        """The kernel's instructions with their counts, as far as the report has them. If they are damaged, set
        `code_error` and return none of them."""
        launch, metrics = self.recorded.launch, self.metrics
        if not metrics.instances(SAMPLES) and not metrics.instances(EXECUTED):
            return CountedCode(launch.details)
        names = dict.fromkeys(COUNTS)
        for stall in self.kernel.stalls:
            if stall.family == "sampled" and stall.share >= _LEAST_STALL and stall.reason != "selected":
                names[stall_metric(stall.reason, stall.family)] = None
        try:
            return self.seen.of(launch, tuple(names))
        except DamagedInput as error:
            self.code_error = str(error)
            return CountedCode(launch.details)

    @cached_property
    def source_texts(self) -> Mapping[str, str]:
        """The embedded source texts by file, if instructions have counts. If they are damaged, set `code_error` and
        return none of them."""
        try:
            return self.recorded.launch.details.source_files() if self.code.instructions else {}
        except DamagedInput as error:
            self.code_error = str(error)
            return {}
