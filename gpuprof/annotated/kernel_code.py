"""The instructions of a launch and data derived from them alone, shared by kernels timed apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from gpuprof.code.sass.instruction import Instruction, instruction_of
from gpuprof.model.recorded import Launch, ProfiledInstruction


class KernelCode:
    """The counted instructions of a launch, in address order."""

    def __init__(self, instructions: tuple[ProfiledInstruction, ...] = ()) -> None:
        self.instructions = instructions
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
        self._last: tuple[Launch, tuple[str, ...], KernelCode] | None = None

    def of(self, launch: Launch, counts: tuple[str, ...]) -> KernelCode:
        """Return the instructions of a launch with these counts.

        Raise DamagedInput if its details are damaged.
        """
        if self._last is None or self._last[0] is not launch or self._last[1] != counts:
            self._last = launch, counts, KernelCode(launch.details.instructions(counts))
        return self._last[2]
