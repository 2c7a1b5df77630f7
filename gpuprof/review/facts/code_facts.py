"""The facts of one kernel that rules read, each computed from its code once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuprof.model.sass_opcodes import MatrixOpcode, matrix_opcode
from gpuprof.model.session import Location
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import CodeAccess, CodeLoop, CodeOccupancy, KernelResources
from gpuprof.review.facts.excess_sectors import ExcessAccess, excess_accesses, has_excess
from gpuprof.review.facts.long_operations import LongOperation, operations
from gpuprof.review.facts.loops import innermost_loops, loops_of
from gpuprof.review.facts.memory import accesses_of
from gpuprof.review.facts.resources import occupancy_of, resources_of
from gpuprof.review.facts.solutions import block_of
from gpuprof.review.facts.strides import kernel_addresses
from gpuprof.sass.dataflow.addresses import KernelAddresses
from gpuprof.sass.instruction import Instruction

_MOST_PLACES = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeFacts(KernelCode):
    """One kernel for the rules."""

    @cached_property
    def loops(self) -> tuple[CodeLoop, ...]:
        """Return its loops by the offsets of their headers; the id of each is its index."""
        return loops_of(self)

    @cached_property
    def innermost(self) -> Mapping[int, int]:
        """Map offsets of instructions in loops to the id of the innermost loop."""
        return innermost_loops(self)

    @cached_property
    def accesses(self) -> tuple[CodeAccess, ...]:
        """Return its memory instructions and the costs of their requests."""
        return accesses_of(self, self.innermost)

    @cached_property
    def addresses(self) -> KernelAddresses | None:
        """Return its addresses as sums of terms; None if a jump target is unknown, or the kernel is too long."""
        return kernel_addresses(self)

    @cached_property
    def excess(self) -> Mapping[int, ExcessAccess]:
        """Return the global accesses whose shape explains their excess sectors, by offset."""
        if not any(map(has_excess, self.accesses)) or self.addresses is None:
            return {}
        return excess_accesses(self.accesses, self.addresses)

    @cached_property
    def matrix(self) -> tuple[tuple[Instruction, MatrixOpcode], ...]:
        """Return its matrix instructions with their shapes and types."""
        items = self.named(*(name for name in self.by_name if name.endswith("MMA")))
        known = []
        for item in items:
            opcode = matrix_opcode(item.opcode)
            if opcode is not None:
                known.append((item, opcode))
        return tuple(known)

    @cached_property
    def resources(self) -> KernelResources:
        """Return its resources."""
        return resources_of(self, self.innermost)

    @cached_property
    def operations(self) -> tuple[LongOperation, ...]:
        """Return the divisions, square roots and slow functions that its instructions compute."""
        return operations(self)

    @property
    def own_arrays(self) -> Sequence[Instruction]:
        """Return its accesses to local arrays, except those of sines, cosines and tangents of large arguments."""
        arrays = self.local_memory.arrays
        library = [*self.library, *(operation.slow_code for operation in self.operations)] if arrays else []
        return [access for access in arrays if not any(access.address in span for span in library)]

    @cached_property
    def occupancy(self) -> CodeOccupancy | None:
        """Return its theoretical occupancy; None if block or limits are not known."""
        return occupancy_of(self, self.resources)

    @property
    def threads_per_block(self) -> int | None:
        """Return the threads of a block as launched, or as the kernel requires."""
        block = block_of(self)
        return math.prod(block) if block is not None else None

    def depth(self, offset: int) -> int:
        """Return the loop depth of an instruction."""
        loop = self.innermost.get(offset)
        return self.loops[loop].depth if loop is not None else 0

    def place(self, instruction: Instruction) -> Location:
        """Return the location of an instruction."""
        file, line = self.lines.get(instruction.address, (None, None))
        offset = instruction.address
        return Location(file=file, line=line, pc=offset, sass=str(instruction), loops=self.depth(offset))

    def places(self, instructions: Iterable[Instruction]) -> tuple[tuple[Location, ...], int]:
        """Return the locations of these instructions, the deepest in loops first, and how many were left out."""
        ranked = sorted(instructions, key=lambda item: (-self.depth(item.address), item.address))
        return tuple(map(self.place, ranked[:_MOST_PLACES])), max(0, len(ranked) - _MOST_PLACES)
