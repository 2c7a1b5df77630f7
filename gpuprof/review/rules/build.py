"""Rules on how a kernel was built: without optimisation, or with the matrix instructions of an older architecture."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rules.debug_build import SELF_MOVES
from gpuprof.model.session import Finding
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.matrix import older_instructions
from gpuprof.review.rules.rule import CodeRule, code_evidence, finding_at
from gpuprof.sass.instruction import Instruction
from gpuprof.units import format_percent
from gpuprof.words.findings import threshold_text


def _debug(case: CodeFacts) -> Iterator[Finding]:
    moves = [item for item in case.known.named("MOV") if _moves_onto_itself(item)]
    share = len(moves) / len(case.code) if case.code else 0.0
    if 100 * share < SELF_MOVES.value:
        return
    yield finding_at(
        case,
        "debug-build",
        moves[:1],
        headline=f"Unoptimised build: {format_percent(share)} of instructions in its code move a register onto itself",
        why="The compiler writes such code with -G (nvcc and NVRTC: --device-debug; Numba: debug=True) or with ptxas "
        "-O0, so that a debugger can step through the source. All other findings are about that code, not about the "
        "algorithm.",
        action="Build with optimisation: replace -G by -lineinfo",
        advice="Remove -G (in CMake: an optimised build type, and no -G in CMAKE_CUDA_FLAGS_DEBUG), build with "
        "-lineinfo where source lines are needed, and check again before changing anything else.",
        evidence=(
            code_evidence(100 * share, "%", threshold_text(SELF_MOVES, "debug-build").name, threshold=SELF_MOVES.value),
        ),
    )


def _moves_onto_itself(instruction: Instruction) -> bool:
    operands = instruction.operands
    return len(operands) == 2 and operands[0] == operands[1].removesuffix(".reuse")


RULES: tuple[CodeRule, ...] = (
    CodeRule(
        id="debug-build",
        title="Code built without optimisation",
        looks_at="The share of instructions that move a register onto itself (MOV R1, R1).",
        silent="Fewer such moves.",
        thresholds=(SELF_MOVES,),
        check=_debug,
    ),
    CodeRule(
        id="old-architecture",
        title="Matrix instructions of an older architecture",
        looks_at="Matrix opcodes in loops, and which ones the architecture has beside mma.sync: wgmma (9.0), tcgen05 "
        "(10.x).",
        silent="The architecture has no other instruction for the type, or the kernel uses it.",
        check=older_instructions,
    ),
)
