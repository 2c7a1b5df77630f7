"""The instructions of a launch and data derived from them alone, shared by kernels timed apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache

from gpuprof.annotated.counts import EXECUTED, SAMPLES, opcode_of, stall_metric
from gpuprof.model.groups import summed
from gpuprof.model.recorded import Launch, LaunchDetails, ProfiledInstruction
from gpuprof.model.session import Location
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.binary.encodings import is_padding, opcodes_of
from gpuprof.sass.instruction import Instruction, instruction_of

_ISSUED_BEFORE = {"barrier": ("BAR", "UBAR"), "membar": ("MEMBAR", "ERRBAR", "CCTL", "FENCE"), "drain": ("EXIT",)}
"""Opcodes that a warp has issued before it waits for these reasons."""
_STORES = frozenset(
    {"ST", "STG", "STL", "RED", "REDG", "ATOM", "ATOMG", "SUST", "SURED", "UTMASTG", "UTMAREDG", "UBLKRED"}
)
"""Instructions whose writes to memory can still be in flight after an exit."""
_BEHIND = 16
"""The most instructions behind a barrier at which reports sampled its warps, and a few more."""


class CountedCode:
    """The counted instructions of a launch in address order, and the lines with most of a count."""

    def __init__(self, details: LaunchDetails, instructions: tuple[ProfiledInstruction, ...] = ()) -> None:
        self.instructions = instructions
        self._details = details
        self._counted: dict[str, Mapping[int, float]] = {}

    def counted(self, name: str) -> Mapping[int, float]:
        """Return the nonzero values of a count by the index of the instruction."""
        if name not in self._counted:
            counts = {}
            for place, instruction in enumerate(self.instructions):
                if instruction.counts.get(name):
                    counts[place] = instruction.counts[name]
            self._counted[name] = counts
        return self._counted[name]

    @cached_property
    def sass(self) -> tuple[str, ...]:
        """The texts of the instructions: results from them alone are the same for all launches."""
        return tuple(instruction.sass for instruction in self.instructions)

    @cached_property
    def has_sass(self) -> bool:
        """Whether the text of any instruction is known."""
        return any(self.sass)

    @cached_property
    def machine_code(self) -> bytes:
        """The kernel's machine code, counted or not; empty if the report embeds none."""
        return self._details.machine_code()

    @cached_property
    def opcode_names(self) -> tuple[str, ...]:
        """The opcodes of the instructions, from their text or machine code; an empty text for an unknown one."""
        start = None if self.has_sass else self._own_code
        if start is None:
            return tuple(map(opcode_of, self.sass))
        names = opcodes_of(self.machine_code)
        places = [(instruction.pc - start) // INSTRUCTION_BYTES for instruction in self.instructions]
        return tuple(names[place] if 0 <= place < len(names) else "" for place in places)

    @property
    def _own_code(self) -> int | None:
        """The address of the kernel's machine code. Instructions of functions elsewhere have other runs of addresses.

        The machine code is as long as its run, without padding. None unless exactly one run fits.
        """
        ends: dict[int, int] = {}
        start = None
        for instruction in self.instructions:
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

    @cached_property
    def operations(self) -> tuple[Instruction, ...]:
        """The parsed instructions, without those whose text is not known."""
        return tuple(filter(None, (instruction_of(item.sass, item.pc) for item in self.instructions)))

    @cached_property
    def first_of_line(self) -> tuple[int, ...]:
        """For each instruction, the index of the first instruction of its source line."""
        first: dict[tuple[object, ...], int] = {}
        return tuple(first.setdefault(line_of(instruction), at) for at, instruction in enumerate(self.instructions))

    @cached_property
    def by_line(self) -> Mapping[tuple[str, int], list[ProfiledInstruction]]:
        """The instructions of each source line, by file and number.

        Without those that have no line.
        """
        by_line: dict[tuple[str, int], list[ProfiledInstruction]] = {}
        for instruction in self.instructions:
            if instruction.file is not None and instruction.line is not None:
                by_line.setdefault((instruction.file, instruction.line), []).append(instruction)
        return by_line

    def place(
        self, weight: Callable[[ProfiledInstruction], float], among: Iterable[int] | None = None
    ) -> Location | None:
        """Return the source line with most weight, with its heaviest instruction; None if no instruction has weight.

        `among` limits the instructions by index. Of lines with equal weight, the first one counts.
        """
        numbers = range(len(self.instructions)) if among is None else among
        return self._place({number: heavy for number in numbers if (heavy := weight(self.instructions[number]))})

    def _place(self, weights: Mapping[int, float]) -> Location | None:
        """Return the same from the weights of instructions by index."""
        total = sum(weights.values())
        if total <= 0:
            return None
        line_of = self.first_of_line
        lines = summed((line_of[number], heavy) for number, heavy in weights.items())
        hottest = min(lines, key=lambda line: (-lines[line], line))
        on_line = (number for number in weights if line_of[number] == hottest)
        top = self.instructions[max(on_line, key=lambda number: weights[number])]
        return Location(file=top.file, line=top.line, pc=top.pc, sass=top.sass or None, share=lines[hottest] / total)

    def place_of(self, *names: str) -> Location | None:
        """Return the line with the most of the first of these counts that any instruction has."""
        for name in names:
            place = self._place(self.counted(name))
            if place is not None:
                return place
        return None

    def place_of_stall(self, *reasons: str) -> Location | None:
        """Return the line with most samples of these reasons, at its barrier, fence or store."""
        samples: dict[int, float] = {}
        for reason in reasons:
            for index, count in self.counted(stall_metric(reason, "sampled")).items():
                at = self._waited_at(index, reason)
                samples[at] = samples.get(at, 0.0) + count
        return self._place({at: samples[at] for at in sorted(samples)})

    def _waited_at(self, index: int, reason: str) -> int:
        """Return the index of the barrier, fence or store before a sample; else its own index.

        A warp that waits at a barrier has issued it, so the sample is at the next instruction of the warp, or a few
        later. A warp that drains has exited, and waits for the stores before its exit.
        """
        named, opcodes = self.opcode_names, _ISSUED_BEFORE.get(reason, ())
        before = range(index, max(-1, index - _BEHIND), -1)
        at = next((at for at in before if named[at].startswith(opcodes)), index)
        if reason != "drain" or named[at] != "EXIT":
            return at
        stores = (back for back in range(at, -1, -1) if named[back].partition(".")[0] in _STORES)
        return next(stores, index)

    def place_of_opcode(self, *starts: str, with_line: bool = False) -> Location | None:
        """Return the line that executes most instructions with these opcode prefixes.

        `with_line` leaves out instructions without a line, if others have one.
        """
        among = _places_of(self.opcode_names, starts)
        if with_line:
            among = tuple(at for at in among if self.instructions[at].line is not None) or among
        return self.place(_executed, among)


def _executed(instruction: ProfiledInstruction) -> float:
    """Return how often an instruction was executed; if that is 0, a tiny weight by its samples."""
    return instruction.counts.get(EXECUTED, 0.0) or 1e-9 * instruction.counts.get(SAMPLES, 0.0)


@lru_cache(maxsize=512)
def _places_of(opcodes: tuple[str, ...], starts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of opcodes that have one of these prefixes with a dot appended."""
    return tuple(number for number, opcode in enumerate(opcodes) if f"{opcode}.".startswith(starts))


def line_of(instruction: ProfiledInstruction) -> tuple[object, ...]:
    """Return a key that instructions of one source line share.

    An instruction without a line has its own.
    """
    if instruction.line is None or instruction.file is None:
        return (instruction.pc,)
    return (instruction.file, instruction.line)


def total(code: Iterable[ProfiledInstruction], name: str) -> float:
    """Return the sum of a count over instructions."""
    return float(sum(instruction.counts.get(name, 0.0) for instruction in code))


@lru_cache(maxsize=64)
def lines_of(source: str) -> tuple[str, ...]:
    """Split a source text into lines as compilers do, not at form feeds.

    Cached for all launches.
    """
    return tuple(source.replace("\r\n", "\n").split("\n"))


class SeenCode:
    """The instructions of the last launch: kernels that were timed apart can share it."""

    def __init__(self) -> None:
        self._last: tuple[Launch, tuple[str, ...], CountedCode] | None = None

    def of(self, launch: Launch, counts: tuple[str, ...]) -> CountedCode:
        """Return the instructions of a launch with these counts.

        Raise DamagedInput if its details are damaged.
        """
        if self._last is None or self._last[0] is not launch or self._last[1] != counts:
            self._last = launch, counts, CountedCode(launch.details, launch.details.instructions(counts))
        return self._last[2]
