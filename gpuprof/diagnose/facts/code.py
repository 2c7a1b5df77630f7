"""Facts of the code: instructions with their counts, and the lines with most of a count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache

from gpuprof.annotated.counts import EXECUTED, SAMPLES, opcode_of, stall_metric
from gpuprof.annotated.kernel_code import KernelCode
from gpuprof.code.binary.elf import INSTRUCTION_BYTES
from gpuprof.code.binary.encodings import is_padding, opcodes_of
from gpuprof.diagnose.facts.work import WorkFacts
from gpuprof.errors import DamagedInput
from gpuprof.model.groups import summed
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Location

FP64_SEEDS = ("MUFU.RCP64H", "MUFU.RSQ64H")
"""The first instructions of FP64 divisions and square roots."""
COUNTS = (
    SAMPLES, EXECUTED,
    "derived__memory_l2_theoretical_sectors_global_excessive", "memory_l2_theoretical_sectors_global",
    "derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared",
    "memory_l2_theoretical_sectors_local", "smsp__branch_targets_threads_divergent",
)  # fmt: skip
"""Counts by instruction that weigh a kernel's code, beside the samples of each stall reason."""
_LEAST_STALL = 0.01
"""Samples of a stall reason with a smaller share are not located in the code."""
_ISSUED_BEFORE = {"barrier": ("BAR", "UBAR"), "membar": ("MEMBAR", "ERRBAR", "CCTL", "FENCE"), "drain": ("EXIT",)}
"""Opcodes that a warp has issued before it waits for these reasons."""
_STORES = frozenset(
    {"ST", "STG", "STL", "RED", "REDG", "ATOM", "ATOMG", "SUST", "SURED", "UTMASTG", "UTMAREDG", "UBLKRED"}
)
"""Instructions whose writes to memory can still be in flight after an exit."""
_BEHIND = 16
"""The most instructions behind a barrier at which reports sampled its warps, and a few more."""


class CodeFacts(WorkFacts):
    """Facts from counters, and of the instructions of the kernel."""

    @cached_property
    def code(self) -> tuple[ProfiledInstruction, ...]:
        """The kernel's instructions with their counts, as far as the report has them."""
        return self.kernel_code.instructions

    @cached_property
    def kernel_code(self) -> KernelCode:
        """Those instructions, with the facts derived from them alone."""
        metrics = self.metrics
        if not metrics.instances(SAMPLES) and not metrics.instances(EXECUTED):
            return KernelCode()
        names = dict.fromkeys(COUNTS)
        for stall in self.kernel.stalls:
            if stall.family == "sampled" and stall.share >= _LEAST_STALL and stall.reason != "selected":
                names[stall_metric(stall.reason, stall.family)] = None
        try:
            return self.seen.of(self.recorded.launch, tuple(names))
        except DamagedInput as error:
            self.code_error = str(error)
            return KernelCode()

    @property
    def sass(self) -> tuple[str, ...]:
        """The texts of those instructions."""
        return self.kernel_code.sass

    @property
    def has_sass(self) -> bool:
        """Whether the text of any of those instructions is known."""
        return self.kernel_code.has_sass

    @cached_property
    def source_texts(self) -> Mapping[str, str] | None:
        """The embedded source texts by file; None, with `code_error` set, if they are damaged."""
        try:
            return self.recorded.launch.details.source_files()
        except DamagedInput as error:
            self.code_error = str(error)
            return None

    @cached_property
    def machine_code(self) -> bytes:
        """The kernel's machine code, counted or not; empty if the report embeds none."""
        return self.recorded.launch.details.machine_code()

    def place(
        self, weight: Callable[[ProfiledInstruction], float], among: Iterable[int] | None = None
    ) -> Location | None:
        """Return the source line with most weight, with its heaviest instruction; None if no
        instruction has weight.

        `among` limits the instructions by index. Of lines with equal weight, the first one counts.
        """
        numbers = range(len(self.code)) if among is None else among
        return self._place({number: heavy for number in numbers if (heavy := weight(self.code[number]))})

    def _place(self, weights: Mapping[int, float]) -> Location | None:
        """Return the same from the weights of instructions by index."""
        total = sum(weights.values())
        if total <= 0:
            return None
        line_of = self.kernel_code.first_of_line
        lines = summed((line_of[number], heavy) for number, heavy in weights.items())
        hottest = min(lines, key=lambda line: (-lines[line], line))
        on_line = (number for number in weights if line_of[number] == hottest)
        top = self.code[max(on_line, key=lambda number: weights[number])]
        return Location(file=top.file, line=top.line, pc=top.pc, sass=top.sass or None, share=lines[hottest] / total)

    def place_of(self, *names: str) -> Location | None:
        """Return the line with the most of the first of these counts that any instruction has."""
        for name in names:
            place = self._place(self.kernel_code.counted(name))
            if place is not None:
                return place
        return None

    def place_of_stall(self, *reasons: str) -> Location | None:
        """Return the line with most samples of these reasons, at its barrier, fence or store."""
        samples: dict[int, float] = {}
        for reason in reasons:
            for index, count in self.kernel_code.counted(stall_metric(reason, "sampled")).items():
                at = self._waited_at(index, reason)
                samples[at] = samples.get(at, 0.0) + count
        return self._place({at: samples[at] for at in sorted(samples)})

    def _waited_at(self, index: int, reason: str) -> int:
        """Return the index of the barrier, fence or store before a sample; else its own index.

        A warp that waits at a barrier has issued it, so the sample is at the next instruction of
        the warp, or a few later. A warp that drains has exited, and waits for the stores before its
        exit.
        """
        named, opcodes = self.opcode_names, _ISSUED_BEFORE.get(reason, ())
        before = range(index, max(-1, index - _BEHIND), -1)
        at = next((at for at in before if named[at].startswith(opcodes)), index)
        if reason != "drain" or named[at] != "EXIT":
            return at
        stores = (back for back in range(at, -1, -1) if named[back].partition(".")[0] in _STORES)
        return next(stores, index)

    def place_of_opcode(self, *starts: str) -> Location | None:
        """Return the line that executes most instructions with these opcode prefixes."""
        return self.place(_executed, _places_of(self.opcode_names, starts))

    def place_of_divisions(self) -> Location | None:
        """Return the line that executes most FP64 divisions and roots, by their first instructions.

        Their slow paths have another one, in shared functions without lines.
        """
        seeds = _places_of(self.opcode_names, FP64_SEEDS)
        return self.place(_executed, [at for at in seeds if self.code[at].line is not None] or seeds)

    @cached_property
    def opcode_names(self) -> tuple[str, ...]:
        """The opcodes of the instructions, from their text or machine code; empty if unknown."""
        start = None if self.has_sass else self._own_code
        if start is None:
            return tuple(map(opcode_of, self.sass))
        names = opcodes_of(self.machine_code)
        places = [(instruction.pc - start) // INSTRUCTION_BYTES for instruction in self.code]
        return tuple(names[place] if 0 <= place < len(names) else "" for place in places)

    @property
    def _own_code(self) -> int | None:
        """The address of the kernel's machine code. Instructions of functions elsewhere have other
        runs of addresses.

        The machine code is as long as its run, without padding. None unless exactly one run fits.
        """
        ends: dict[int, int] = {}
        start = None
        for instruction in self.code:
            if start is None or instruction.pc != ends[start]:
                start = instruction.pc
            ends[start] = instruction.pc + INSTRUCTION_BYTES
        code, fitting = self.machine_code, []
        for start, end in ends.items():
            if end - start <= len(code) and is_padding(code[end - start :]):
                fitting.append(start)
        if len(fitting) != 1:
            return None
        return fitting[0]


def _executed(instruction: ProfiledInstruction) -> float:
    """Return how often an instruction was executed; if that is 0, a tiny weight by its samples."""
    return instruction.counts.get(EXECUTED, 0.0) or 1e-9 * instruction.counts.get(SAMPLES, 0.0)


@lru_cache(maxsize=512)
def _places_of(opcodes: tuple[str, ...], starts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of opcodes that have one of these prefixes with a dot appended."""
    return tuple(number for number, opcode in enumerate(opcodes) if f"{opcode}.".startswith(starts))
