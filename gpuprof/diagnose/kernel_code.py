"""The instructions of a launch and what follows from them alone: kernels that were timed apart can share a launch."""

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
        """Return a count of the instructions that have one, by their places."""
        if name not in self._counted:
            counts = enumerate(instruction.counts.get(name, 0.0) for instruction in self.instructions)
            self._counted[name] = {place: count for place, count in counts if count}
        return self._counted[name]

    @cached_property
    def sass(self) -> tuple[str, ...]:
        """The texts of the instructions: what follows from them alone is the same for all launches of a kernel."""
        return tuple(instruction.sass for instruction in self.instructions)

    @cached_property
    def has_sass(self) -> bool:
        """Whether the text of any instruction is known."""
        return any(self.sass)

    @cached_property
    def operations(self) -> tuple[Instruction, ...]:
        """Those of the instructions whose text is known, taken apart."""
        return tuple(filter(None, (instruction_of(item.sass, item.pc) for item in self.instructions)))

    @cached_property
    def first_of_line(self) -> tuple[int, ...]:
        """For each instruction, the place of the first one of its source line."""
        first: dict[tuple[object, ...], int] = {}
        return tuple(first.setdefault(line_of(instruction), at) for at, instruction in enumerate(self.instructions))

    @cached_property
    def by_line(self) -> Mapping[tuple[str, int], list[ProfiledInstruction]]:
        """The instructions of each source line, as far as they have one: by file and number."""
        by_line: dict[tuple[str, int], list[ProfiledInstruction]] = {}
        for instruction in self.instructions:
            if instruction.file is not None and instruction.line is not None:
                by_line.setdefault((instruction.file, instruction.line), []).append(instruction)
        return by_line


def line_of(instruction: ProfiledInstruction) -> tuple[object, ...]:
    """Return what is equal for the instructions of a source line; one without a line is alone."""
    if instruction.line is None or instruction.file is None:
        return (instruction.pc,)
    return (instruction.file, instruction.line)


def total(code: Iterable[ProfiledInstruction], name: str) -> float:
    """Return the sum of a count over instructions."""
    return float(sum(instruction.counts.get(name, 0.0) for instruction in code))


@lru_cache(maxsize=64)
def lines_of(source: str) -> tuple[str, ...]:
    """Split a source text into lines where compilers do, not at a form feed: once for all launches."""
    return tuple(source.replace("\r\n", "\n").split("\n"))


class SeenCode:
    """The instructions of the last launch: kernels that were timed apart can share it."""

    def __init__(self) -> None:
        self._last: tuple[Launch, tuple[str, ...], KernelCode] | None = None

    def of(self, launch: Launch, counts: tuple[str, ...]) -> KernelCode:
        """Return the instructions of a launch with these counts. Raises DamagedInput as its details do."""
        last = self._last
        if last is None or last[0] is not launch or last[1] != counts:
            last = self._last = launch, counts, KernelCode(launch.details.instructions(counts))
        return last[2]
