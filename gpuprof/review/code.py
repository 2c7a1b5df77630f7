"""What is known of one kernel before it is looked at: its instructions, where they are from, its architecture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from gpuprof.hardware.specs import ArchSpec
from gpuprof.review.kernel import CompiledKernel
from gpuprof.sass.instruction import Instruction


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelCode:
    """One kernel and its code. `lines` are source places by offset; empty without line information.

    `code` is without the padding behind the last instruction; where it could not be read, `unread` says why. `arch` is
    None for a target that no spec describes. Each is its own key, so that what follows from one is worked out once.
    """

    kernel: CompiledKernel
    code: tuple[Instruction, ...]
    lines: Mapping[int, tuple[str, int]]
    arch: ArchSpec | None
    unread: str | None = None

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Instruction]]:
        """Return its instructions in order by the first word of their opcodes."""
        by_name: dict[str, list[Instruction]] = {}
        for instruction in self.code:
            by_name.setdefault(instruction.name, []).append(instruction)
        return by_name

    def named(self, *names: str) -> Sequence[Instruction]:
        """Return its instructions whose opcodes begin with one of these words, in order."""
        items = [item for name in dict.fromkeys(names) for item in self.by_name.get(name, ())]
        return sorted(items, key=attrgetter("address")) if len(names) > 1 else items

    def has_any(self, names: Iterable[str]) -> bool:
        """Tell whether the opcode of an instruction begins with one of these words."""
        return not self.by_name.keys().isdisjoint(names)
