"""The result of a review: the JSON contract of `gpuprof check --format json`; its schema follows from the types.

Names of fields have the unit. None means unknown; zero means none. There are no times.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from gpuprof.comparison.contract import Gate, SourceLine, ValueChange
from gpuprof.model.field_types import ByteCount, Fraction, Number, Positive, Whole, Word, about
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Finding

ReviewVersion = Literal[4]
REVIEW_VERSION: ReviewVersion = 4
AccessSpace = Literal["global", "shared", "local"]
AccessKind = Literal["load", "store", "atomic"]
ModuleForm = Literal["sass", "ptx"]
"""`ptx`: no machine code for its target; the driver compiles it when the program starts."""
LimiterName = Literal["registers", "shared memory", "block size", "blocks"]
BuildMatch = Literal["exact", "renamed", "similar", "new", "gone"]
"""`exact`: by name; `renamed`: but for numbers and hashes of compilers in it; `similar`: by its instructions."""


class ArgumentPart(Struct, frozen=True, kw_only=True):
    """A part of an argument that is a structure."""

    offset: Annotated[Whole, about("bytes from the start of the argument")]
    size_bytes: Annotated[ByteCount, about("its size")]
    name: Annotated[str, about("argument and member, such as in.stride, or offset, such as in+8")]
    value: Annotated[int, about("as given by --arg")]


class KernelArgument(Struct, frozen=True, kw_only=True):
    """A parameter of a kernel."""

    ordinal: Annotated[Whole, about("position, from 0")]
    name: Annotated[str | None, about("name in the source or in Triton's metadata")]
    size_bytes: Annotated[ByteCount, about("its size")]
    value: Annotated[int | None, about("as given by --arg; null for a structure")] = None
    parts: Annotated[tuple[ArgumentPart, ...], about("parts of a structure that --arg gives")] = ()


class SpillCount(Struct, frozen=True, kw_only=True):
    """Instructions that store registers to local memory and load them back."""

    loads: Annotated[Whole, about("load instructions")]
    stores: Annotated[Whole, about("store instructions")]
    load_bytes: Annotated[ByteCount, about("bytes per thread that they load, each instruction counted once")]
    store_bytes: Annotated[ByteCount, about("bytes per thread that they store, each instruction counted once")]
    in_loops: Annotated[Whole, about("instructions among them inside loops")]


class KernelResources(Struct, frozen=True, kw_only=True):
    """Resources of a kernel, from its cubin and code; for a launch without code, from the report."""

    registers: Annotated[Whole | None, about("registers per thread")]
    static_shared_bytes: Annotated[
        ByteCount | None, about("shared memory per block that the code declares; null: unknown")
    ]
    dynamic_shared_bytes: Annotated[ByteCount | None, about("dynamic shared memory per block; null: unknown")]
    stack_bytes: Annotated[ByteCount | None, about("local memory per thread: arrays, spills, calls; null: unknown")]
    spills: Annotated[SpillCount | None, about("registers kept in local memory; null: unknown")]
    barriers: Annotated[Whole | None, about("named barriers that the code uses")]
    code_bytes: Annotated[ByteCount | None, about("size of its machine code with padding; null: the file has none")]
    instructions: Annotated[Whole | None, about("number of instructions without padding; null: not read")]
    max_threads: Annotated[Positive | None, about("maximum threads per block, by __launch_bounds__ or .maxntid")]
    required_block: Annotated[Dim3 | None, about("block size that the code requires, by .reqntid")]


class OccupancyStep(Struct, frozen=True, kw_only=True):
    """A change that lets more blocks be resident."""

    resource: Annotated[LimiterName, about("resource to change")]
    to: Annotated[Whole, about("largest value that suffices: registers per thread, bytes or threads per block")]
    blocks_per_sm: Annotated[Whole, about("blocks that then fit")]
    fraction: Annotated[Fraction, about("occupancy then")]
    sentence: Annotated[str, about("the same in words")]


class CodeOccupancy(Struct, frozen=True, kw_only=True):
    """Theoretical occupancy of the launch on this architecture."""

    fraction: Annotated[Fraction, about("resident warps ÷ warp slots of an SM")]
    blocks_per_sm: Annotated[Whole, about("resident blocks per SM")]
    warps_per_sm: Annotated[Whole, about("resident warps per SM")]
    limiters: Annotated[tuple[LimiterName, ...], about("what limits it; none at full occupancy")]
    steps: Annotated[
        tuple[OccupancyStep, ...], about("the smallest change of each limiter that lets one more block fit")
    ]
    sentence: Annotated[str, about("the same in words")]
    needs_dynamic: Annotated[
        bool, about("whether the launch needs dynamic shared memory of unknown size, so that occupancy is lower")
    ] = False


class CodeLoop(Struct, frozen=True, kw_only=True):
    """A loop of the control flow."""

    id: Annotated[Whole, about("its number in the kernel, by the offset of its header")]
    parent: Annotated[Whole | None, about("id of the loop around it")]
    depth: Annotated[Positive, about("1 for an outermost loop")]
    start: Annotated[Whole, about("offset of its first instruction")]
    end: Annotated[Whole, about("offset after its last instruction")]
    instructions: Annotated[Whole, about("instructions in it, with those of the loops inside")]
    trips: Annotated[Positive | None, about("iterations per entry; null unless constant")]
    file: Annotated[str | None, about("source file of its header")]
    line: Annotated[Positive | None, about("line of its header")]


class CodeAccess(Struct, frozen=True, kw_only=True):
    """A memory instruction, and the cost of a request of a full warp. LDGSTS has two entries, one per memory space."""

    offset: Annotated[Whole, about("bytes from the kernel's first instruction")]
    opcode: Annotated[str, about("opcode with modifiers, as nvdisasm prints it")]
    space: Annotated[AccessSpace, about("memory space")]
    kind: Annotated[AccessKind, about("load, store or atomic")]
    width_bytes: Annotated[ByteCount, about("bytes per lane")]
    sectors_per_request: Annotated[Number | None, about("32-byte sectors, if global or local; null: unknown")]
    wavefronts_per_request: Annotated[Number | None, about("passes of a shared request; null: unknown")]
    needed_per_request: Annotated[
        Number | None, about("sectors (wavefronts, if shared) if lanes accessed consecutive addresses; null: unknown")
    ]
    lane_stride_bytes: Annotated[int | None, about("stride from lane to lane, if it is the same for all")]
    unknown: Annotated[str, about("why the cost is unknown, and what it depends on; empty if known")] = ""
    loop: Annotated[Whole | None, about("id of the innermost loop that it is in")] = None
    file: Annotated[str | None, about("source file")] = None
    line: Annotated[Positive | None, about("line number in it")] = None

    @property
    def cost(self) -> float | None:
        """Return the cost of a request: wavefronts in shared memory, sectors elsewhere; None if it is not known."""
        return self.wavefronts_per_request if self.space == "shared" else self.sectors_per_request

    @property
    def is_costly(self) -> bool:
        """Return whether a request costs more than it needs."""
        return self.cost is not None and self.needed_per_request is not None and self.cost > self.needed_per_request


class OpcodeCount(Struct, frozen=True):
    """How many instructions have an opcode."""

    opcode: Annotated[str, about("opcode without modifiers")]
    count: Annotated[Positive, about("instructions, each counted once")]


class ReviewedKernel(Struct, frozen=True, kw_only=True):
    """A kernel for one architecture; from a report, one launch."""

    id: Annotated[Whole, about("its number in this review, from 0")]
    name: Annotated[str, about("demangled name with parameters")]
    label: Annotated[str, about("short name")]
    mangled: Annotated[str, about("symbol name")]
    target: Annotated[Word, about("architecture that it is compiled for, such as sm_90a")]
    origin: Annotated[str, about("its file, with the member of an archive in brackets")]
    launch: Annotated[Whole | None, about("index of the launch in its report, from 0")]
    block: Annotated[Dim3 | None, about("threads of a block: x, y, z; null: unknown")]
    grid: Annotated[Dim3 | None, about("blocks of the grid: x, y, z; null: unknown")]
    arguments: Annotated[tuple[KernelArgument, ...], about("its parameters in order")]
    resources: Annotated[KernelResources, about("its resources")]
    occupancy: Annotated[CodeOccupancy | None, about("theoretical occupancy; null if block size or limits are unknown")]
    loops: Annotated[tuple[CodeLoop, ...], about("its loops, in the order of their headers")]
    accesses: Annotated[tuple[CodeAccess, ...], about("its memory instructions, in order")]
    opcodes: Annotated[tuple[OpcodeCount, ...], about("its instructions by opcode, most first")] = ()
    findings: Annotated[tuple[Finding, ...], about("what to change, deepest in loops first")]
    has_lines: Annotated[bool, about("whether the code has line information")]
    unreviewed: Annotated[str | None, about("why its code could not be reviewed; null: it was")] = None
    notes: Annotated[tuple[str, ...], about("assumptions and unknowns, in sentences")] = ()


class ReviewedModule(Struct, frozen=True, kw_only=True):
    """A piece of device code in a file: a cubin, or PTX without one."""

    origin: Annotated[str, about("file, with the member of an archive in brackets")]
    target: Annotated[str, about("architecture, such as sm_90a; for PTX, such as compute_90")]
    form: Annotated[ModuleForm, about("machine code or PTX")]
    kernels: Annotated[Whole, about("number of kernels in it, selected or not")]


class UnreviewedFile(Struct, frozen=True, kw_only=True):
    """A file that could not be read or compiled, while others could."""

    file: Annotated[str, about("its name")]
    why: Annotated[str, about("why, in a sentence")]


class CodeChange(ValueChange, frozen=True, kw_only=True):
    """A value of a kernel in the base and in the new build; `base` and `new` are null if they are not known."""

    of: Annotated[str, about("the access or loop that it is of; empty: the whole kernel")] = ""
    location: Annotated[SourceLine | None, about("line of that in the new build; null: not known")] = None
    base_needed: Annotated[
        Number | None, about("sectors or wavefronts in the base if lanes accessed consecutive addresses")
    ] = None
    new_needed: Annotated[Number | None, about("the same in the new build")] = None
    added: Annotated[bool, about("whether the base has no such kernel, access or loop")] = False


class BuildChange(Struct, frozen=True, kw_only=True):
    """A kernel in both builds, or in one of them."""

    kernel: Annotated[Whole | None, about("id of the kernel in this review; null: it is gone")]
    label: Annotated[str, about("short name, of the new build if it has the kernel")]
    match: Annotated[BuildMatch, about("why these kernels are taken for each other")]
    base: Annotated[str | None, about("short name in the base; null: the kernel is new")]
    values: Annotated[tuple[CodeChange, ...], about("values that differ")]
    came: Annotated[tuple[Finding, ...], about("findings that the base does not have")]
    went: Annotated[tuple[Finding, ...], about("findings that only the base has")]


class BuildChanges(Struct, frozen=True, kw_only=True):
    """What differs between the base and the new build."""

    files: Annotated[tuple[str, ...], about("files of the base")]
    kernels: Annotated[tuple[BuildChange, ...], about("kernels of the new build in order, then those that are gone")]


class Review(Struct, frozen=True, kw_only=True):
    """The result of a review of compiled kernels."""

    schema_version: Annotated[ReviewVersion, about("version of this contract")]
    gpuprof_version: Annotated[str, about("version of the gpuprof that wrote it")]
    files: Annotated[tuple[str, ...], about("files that were read")]
    tools: Annotated[tuple[str, ...], about("programs that read or compiled the code, with their versions")]
    modules: Annotated[tuple[ReviewedModule, ...], about("device code in the files")]
    kernels: Annotated[tuple[ReviewedKernel, ...], about("kernels in the order of the files; launches of a report")]
    findings: Annotated[tuple[Finding, ...], about("findings on the files as a whole, such as missing code")] = ()
    unreviewed: Annotated[tuple[UnreviewedFile, ...], about("files that could not be read or compiled")] = ()
    notes: Annotated[tuple[str, ...], about("what was left out, and why, in sentences")] = ()
    changes: Annotated[BuildChanges | None, about("what differs from the base; null without a base")] = None
    gate: Annotated[Gate | None, about("whether the limits are kept; null without limits")] = None
