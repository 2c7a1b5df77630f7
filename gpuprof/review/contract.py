"""The result of a review: the JSON contract of `gpuprof check --format json`; its schema follows from the types.

Bytes and counts, the unit in the name. None means not known; zero means that there is none. Nothing here is a time.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from gpuprof.model.field_types import ByteCount, Fraction, Number, Positive, Whole, Word, about
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Evidence

ReviewVersion = Literal[3]
REVIEW_VERSION: ReviewVersion = 3
AccessSpace = Literal["global", "shared", "local"]
AccessKind = Literal["load", "store", "atomic"]
ModuleForm = Literal["sass", "ptx"]
"""`ptx`: no machine code for its target: the driver compiles it where the program starts."""
CodeCertainty = Literal["from code", "guess"]
"""`from code`: the instructions show it. `guess`: they show a sign of it."""
LimiterName = Literal["registers", "shared memory", "block size", "blocks"]


class CodePlace(Struct, frozen=True, kw_only=True):
    """An instruction, and the line that it was compiled from."""

    offset: Annotated[Whole | None, about("bytes from the kernel's first instruction")]
    sass: Annotated[str, about("the instruction, as nvdisasm prints it")]
    file: Annotated[str | None, about("source file; null without line information")] = None
    line: Annotated[Positive | None, about("line number in it")] = None
    loop: Annotated[Whole | None, about("id of the innermost loop that it is in")] = None


class KernelArgument(Struct, frozen=True, kw_only=True):
    """A parameter of a kernel."""

    ordinal: Annotated[Whole, about("its place, from 0")]
    name: Annotated[str | None, about("as the source or Triton's metadata call it")]
    size_bytes: Annotated[ByteCount, about("its size")]
    value: Annotated[int | None, about("as given by --arg")] = None


class SpillCount(Struct, frozen=True, kw_only=True):
    """Instructions that store registers to local memory and load them back."""

    loads: Annotated[Whole, about("load instructions")]
    stores: Annotated[Whole, about("store instructions")]
    load_bytes: Annotated[ByteCount, about("bytes per thread that they load, each instruction counted once")]
    store_bytes: Annotated[ByteCount, about("bytes per thread that they store, each instruction counted once")]
    in_loops: Annotated[Whole, about("those of them inside loops")]


class KernelResources(Struct, frozen=True, kw_only=True):
    """What a kernel takes, by its cubin and its code; of a launch without code, by what the report recorded."""

    registers: Annotated[Whole | None, about("registers per thread")]
    static_shared_bytes: Annotated[
        ByteCount | None, about("shared memory per block that the code declares; null: not known")
    ]
    dynamic_shared_bytes: Annotated[ByteCount | None, about("dynamic shared memory per block; null: not given")]
    stack_bytes: Annotated[ByteCount | None, about("local memory per thread: arrays, spills, calls; null: not known")]
    spills: Annotated[SpillCount | None, about("registers kept in local memory; null: not known")]
    barriers: Annotated[Whole | None, about("barriers of a block that the code uses")]
    code_bytes: Annotated[
        ByteCount | None, about("size of its machine code, with the padding behind its end; null: the file has none")
    ]
    instructions: Annotated[Whole | None, about("instructions of it, without padding; null: they were not read")]
    max_threads: Annotated[Positive | None, about("threads per block at most, by __launch_bounds__ or .maxntid")]
    required_block: Annotated[Dim3 | None, about("block that the code asks for, by .reqntid")]


class OccupancyStep(Struct, frozen=True, kw_only=True):
    """What would let more blocks be resident."""

    resource: Annotated[LimiterName, about("what is to change")]
    to: Annotated[Whole, about("what it has to be at most: registers per thread, bytes or threads per block")]
    blocks_per_sm: Annotated[Whole, about("blocks that then fit")]
    fraction: Annotated[Fraction, about("occupancy then")]
    sentence: Annotated[str, about("the same in words")]


class CodeOccupancy(Struct, frozen=True, kw_only=True):
    """Theoretical occupancy of the launch on this architecture."""

    fraction: Annotated[Fraction, about("resident warps ÷ what an SM holds")]
    blocks_per_sm: Annotated[Whole, about("resident blocks per SM")]
    warps_per_sm: Annotated[Whole, about("resident warps per SM")]
    limiters: Annotated[tuple[LimiterName, ...], about("what binds; none at full occupancy")]
    steps: Annotated[tuple[OccupancyStep, ...], about("the least change of each limiter that lets more blocks in")]
    sentence: Annotated[str, about("the same in words")]
    needs_dynamic: Annotated[
        bool, about("whether the launch has to take dynamic shared memory of a size that is not known: then it is less")
    ] = False


class CodeLoop(Struct, frozen=True, kw_only=True):
    """A loop of the control flow."""

    id: Annotated[Whole, about("its number in the kernel, by the offset of its header")]
    parent: Annotated[Whole | None, about("id of the loop around it")]
    depth: Annotated[Positive, about("1 for an outermost loop")]
    start: Annotated[Whole, about("offset of its first instruction")]
    end: Annotated[Whole, about("offset behind its last instruction")]
    instructions: Annotated[Whole, about("instructions in it, with those of the loops inside")]
    trips: Annotated[Positive | None, about("times that it runs each time it is entered; null unless a constant")]
    file: Annotated[str | None, about("source file of its header")]
    line: Annotated[Positive | None, about("line of its header")]


class CodeAccess(Struct, frozen=True, kw_only=True):
    """A memory instruction, and what a request of a full warp costs; an LDGSTS has two entries, one for each space."""

    offset: Annotated[Whole, about("bytes from the kernel's first instruction")]
    opcode: Annotated[str, about("as nvdisasm prints it, with modifiers")]
    space: Annotated[AccessSpace, about("memory that it touches")]
    kind: Annotated[AccessKind, about("what it does")]
    width_bytes: Annotated[ByteCount, about("bytes a lane")]
    sectors_per_request: Annotated[Number | None, about("32-byte sectors, if global or local; null: not known")]
    wavefronts_per_request: Annotated[Number | None, about("passes of a shared request; null: not known")]
    needed_per_request: Annotated[
        Number | None, about("sectors (wavefronts, if shared) with the lanes side by side; null: not known")
    ]
    lane_stride_bytes: Annotated[int | None, about("from a lane to the next, where it is the same for all")]
    unknown: Annotated[str, about("why it is not known, and what it depends on; empty where it is known")] = ""
    loop: Annotated[Whole | None, about("id of the innermost loop that it is in")] = None
    file: Annotated[str | None, about("source file")] = None
    line: Annotated[Positive | None, about("line number in it")] = None


class CodeFinding(Struct, frozen=True, kw_only=True):
    """One thing that the code shows, by the rule of the diagnosis where that has the same. Never a time."""

    rule: Annotated[Word, about("id of the rule")]
    certainty: Annotated[CodeCertainty, about("how sure it is")]
    headline: Annotated[str, about("what was found")]
    why: Annotated[str, about("what it costs, in instructions, bytes or slots")]
    action: Annotated[str, about("what to change, in one sentence")]
    advice: Annotated[str, about("what to change, and how")]
    evidence: Annotated[tuple[Evidence, ...], about("numbers that it rests on")]
    places: Annotated[tuple[CodePlace, ...], about("where, the deepest in loops first; at most 20")]
    more_places: Annotated[Whole, about("places that are not listed")] = 0
    loop_depth: Annotated[Whole, about("loops around the first place")] = 0


class ReviewedKernel(Struct, frozen=True, kw_only=True):
    """One kernel for one architecture; of a report, one launch of it."""

    id: Annotated[Whole, about("its number in this review, from 0")]
    name: Annotated[str, about("demangled name with parameters")]
    label: Annotated[str, about("short name")]
    mangled: Annotated[str, about("name of its symbol")]
    target: Annotated[Word, about("architecture that it is compiled for, such as sm_90a")]
    origin: Annotated[str, about("file that it is from, with the member of an archive in brackets")]
    launch: Annotated[Whole | None, about("number of the launch in the report that it is from, from 0")]
    block: Annotated[Dim3 | None, about("threads of a block: x, y, z; null: not known")]
    grid: Annotated[Dim3 | None, about("blocks of the grid: x, y, z; null: not known")]
    arguments: Annotated[tuple[KernelArgument, ...], about("its parameters in order")]
    resources: Annotated[KernelResources, about("what it takes")]
    occupancy: Annotated[CodeOccupancy | None, about("null where block or limits are not known")]
    loops: Annotated[tuple[CodeLoop, ...], about("its loops, in the order of their headers")]
    accesses: Annotated[tuple[CodeAccess, ...], about("its memory instructions, in order")]
    findings: Annotated[tuple[CodeFinding, ...], about("what to change, in hot loops first")]
    has_lines: Annotated[bool, about("the code has line information")]
    unreviewed: Annotated[str | None, about("why its code could not be reviewed; null: it was")] = None
    notes: Annotated[tuple[str, ...], about("what is assumed or could not be told, in sentences")] = ()


class ReviewedModule(Struct, frozen=True, kw_only=True):
    """One piece of device code of a file: a cubin, or PTX that has none."""

    origin: Annotated[str, about("file, with the member of an archive in brackets")]
    target: Annotated[str, about("architecture, such as sm_90a; of PTX compute_90")]
    form: Annotated[ModuleForm, about("machine code or PTX")]
    kernels: Annotated[Whole, about("kernels in it, chosen or not")]


class UnreviewedFile(Struct, frozen=True, kw_only=True):
    """A file that could not be read or compiled, where others could."""

    file: Annotated[str, about("its name")]
    why: Annotated[str, about("why, in a sentence")]


class Review(Struct, frozen=True, kw_only=True):
    """Everything that is told of compiled kernels."""

    schema_version: Annotated[ReviewVersion, about("version of this contract")]
    gpuprof_version: Annotated[str, about("version of gpuprof that wrote it")]
    files: Annotated[tuple[str, ...], about("files that were read")]
    tools: Annotated[tuple[str, ...], about("programs that read or compiled the code, with their versions")]
    modules: Annotated[tuple[ReviewedModule, ...], about("device code in the files")]
    kernels: Annotated[tuple[ReviewedKernel, ...], about("kernels in the order of the files; launches of a report")]
    findings: Annotated[tuple[CodeFinding, ...], about("on the files as a whole, such as code that is missing")] = ()
    unreviewed: Annotated[tuple[UnreviewedFile, ...], about("files that could not be read or compiled")] = ()
    notes: Annotated[tuple[str, ...], about("what was left out and why, in sentences")] = ()
