"""Hand-made reviews for what presents them: every value is set, none is computed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gpuprof.diagnose.ranking import numbered
from gpuprof.model.session import Evidence, Finding, Location
from gpuprof.review.contract import (
    CodeAccess,
    CodeLoop,
    CodeOccupancy,
    KernelArgument,
    KernelResources,
    OccupancyStep,
    Review,
    ReviewedKernel,
    ReviewedModule,
    SpillCount,
)

FILE = "src/transpose.cu"


def place(line: int | None = 12, **changes: Any) -> Location:
    made = Location(
        pc=0x120,
        sass="LDG.E R2, desc[UR4][R2.64]",
        file=FILE if line is not None else None,
        line=line,
        loops=2,
    )
    return replace(made, **changes)


def finding(rule: str = "uncoalesced-global", *places: Location, **changes: Any) -> Finding:
    places = places or (place(), place(14, pc=0x140))
    made = Finding(
        id=rule,
        rule=rule,
        severity="high",
        confidence="inferred",
        headline="Uncoalesced global access: 32 sectors per request, 4 are needed",
        why="Each lane of a warp touches a sector of its own.",
        action="Let consecutive threads read consecutive words",
        advice="Swap the indices of the load, or go through shared memory.",
        evidence=(Evidence("", 32.0, "sector/request", threshold=4.0, meaning="sectors of a request"),),
        place=places[0],
        places=places,
        gain_kernel=None,
        gain_total=None,
    )
    return replace(made, **changes)


def resources(**changes: Any) -> KernelResources:
    made = KernelResources(
        registers=72,
        static_shared_bytes=4224,
        dynamic_shared_bytes=None,
        stack_bytes=16,
        spills=SpillCount(loads=4, stores=3, load_bytes=16, store_bytes=12, in_loops=2),
        barriers=1,
        code_bytes=2048,
        instructions=117,
        max_threads=256,
        required_block=None,
    )
    return replace(made, **changes)


def occupancy(**changes: Any) -> CodeOccupancy:
    made = CodeOccupancy(
        fraction=0.375,
        blocks_per_sm=3,
        warps_per_sm=24,
        limiters=("registers",),
        steps=(
            OccupancyStep(
                resource="registers",
                to=64,
                blocks_per_sm=4,
                fraction=0.5,
                sentence="at 64 registers one more block fits (50 %)",
            ),
        ),
        sentence="3 blocks of 256 threads fit: 24 of 64 warps",
    )
    return replace(made, **changes)


def loop(number: int = 0, **changes: Any) -> CodeLoop:
    made = CodeLoop(
        id=number,
        parent=None if number == 0 else number - 1,
        depth=number + 1,
        start=0x100,
        end=0x200,
        instructions=16,
        trips=64 if number == 0 else None,
        file=FILE,
        line=10 + number,
    )
    return replace(made, **changes)


def access(**changes: Any) -> CodeAccess:
    made = CodeAccess(
        offset=0x120,
        opcode="LDG.E",
        space="global",
        kind="load",
        width_bytes=4,
        sectors_per_request=32.0,
        wavefronts_per_request=None,
        needed_per_request=4.0,
        lane_stride_bytes=4096,
        loop=1,
        file=FILE,
        line=12,
    )
    return replace(made, **changes)


UNKNOWN = "the stride is argument 2 (n): 1 → 4 sectors, 32 or more → 32"


def accesses() -> tuple[CodeAccess, ...]:
    shared = {"opcode": "STS", "space": "shared", "kind": "store", "sectors_per_request": None}
    return (
        access(),
        access(offset=0x130, **{**shared, "wavefronts_per_request": 32.0, "needed_per_request": 1.0}),
        access(
            offset=0x140, line=14, opcode="STG.E", kind="store", sectors_per_request=None, needed_per_request=None,
            lane_stride_bytes=None, unknown=UNKNOWN,
        ),
        access(offset=0x150, opcode="LDL", space="local", sectors_per_request=4.0, file=None, line=None),
    )  # fmt: skip


def kernel(number: int = 0, *findings: Finding, label: str = "transpose_naive", **changes: Any) -> ReviewedKernel:
    made = ReviewedKernel(
        id=number,
        name=f"void {label}<float>(float *, const float *, int)",
        label=label,
        mangled=f"_Z{len(label)}{label}IfEvPT_PKS0_i",
        target="sm_90",
        origin=FILE,
        launch=None,
        block=(256, 1, 1),
        grid=None,
        arguments=(
            KernelArgument(ordinal=0, name="out", size_bytes=8),
            KernelArgument(ordinal=1, name="in", size_bytes=8),
            KernelArgument(ordinal=2, name="n", size_bytes=4, value=4096),
        ),
        resources=resources(),
        occupancy=occupancy(),
        loops=(loop(0), loop(1)),
        accesses=accesses(),
        findings=tuple(numbered(findings, number)),
        has_lines=True,
    )
    return replace(made, **changes)


def review(*kernels: ReviewedKernel, **changes: Any) -> Review:
    targets = dict.fromkeys(kernel.target for kernel in kernels)
    made = Review(
        schema_version=4,
        gpuprof_version="0.1.0",
        files=tuple(dict.fromkeys(kernel.origin.partition("[")[0] for kernel in kernels)) or (FILE,),
        tools=("NVRTC 13.1", "nvdisasm 13.1.80"),
        modules=tuple(
            ReviewedModule(
                origin=FILE, target=target, form="sass", kernels=sum(kernel.target == target for kernel in kernels)
            )
            for target in targets
        ),
        kernels=kernels,
    )
    return replace(made, **changes)


def everything(text: str = "text", name: str = "kernel") -> Review:
    """Every field is set, those that come from files to these texts."""
    where = place(file=f"{text}.cu", sass=text)
    told = finding("uncoalesced-global", where, headline=text, why=text, action=text, advice=text, more_places=3,
                   evidence=(Evidence(text, 32.0, "sector/request", threshold=4.0, meaning=text),))  # fmt: skip
    made = kernel(
        0, told, finding("register-spills", place(None, loops=0), confidence="guess", headline=f"{text} 2"),
        name=name, label=name, mangled=name, origin=f"{text}[{text}]", launch=0, grid=(64, 1, 1),
        arguments=(KernelArgument(ordinal=0, name=text, size_bytes=8, value=-5),),
        occupancy=occupancy(sentence=text),
        loops=(loop(file=text),),
        accesses=(access(opcode=text, file=text), access(opcode="LDG.E", sectors_per_request=None, unknown=text)),
        notes=(text,),
    )  # fmt: skip
    return review(
        made,
        replace(made, id=1, target="sm_80", launch=1, occupancy=None, findings=(told,)),
        files=(text,),
        tools=(text,),
        modules=(ReviewedModule(origin=text, target="compute_90", form="ptx", kernels=1),),
        findings=(finding("no-machine-code", place(None, pc=None, sass=None), headline=text, action=text),),
        notes=(text,),
    )
