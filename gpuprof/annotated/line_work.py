"""The work of each source line: instructions, those of local memory, and samples of warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuprof.annotated.counts import EXECUTED, SAMPLES, opcode_of
from gpuprof.annotated.kernel_code import CountedCode, lines_of, total
from gpuprof.model.recorded import MetricTable, ProfiledInstruction
from gpuprof.model.session import LineWork
from gpuprof.sass.patterns.local_accesses import LOCAL_OPCODES

MOST = 64
_LONGEST_TEXT = 200
_LOCAL_SECTORS = "memory_l2_theoretical_sectors_local"


def line_work(
    code: CountedCode, texts: Mapping[str, str], metrics: MetricTable, *, uses_local: bool
) -> tuple[tuple[LineWork, ...], int]:
    """Return the lines with most work, by file and number, and the number of other lines.

    `texts` are the source texts by file. `uses_local`: the kernel may access local memory; lines
    that do take precedence. Work is measured in executed instructions, or in samples if those were
    not counted.
    """
    counted = bool(metrics.instances(EXECUTED))
    sampled = bool(metrics.instances(SAMPLES))
    every = []
    for (file, number), instructions in code.by_line.items():
        local: float | None = 0.0
        if uses_local:
            local = _local(instructions, metrics) if counted else None
        every.append(
            LineWork(
                file=file,
                number=number,
                text=_text(texts.get(file, ""), number),
                instructions=total(instructions, EXECUTED) if counted else None,
                local=local,
                samples=total(instructions, SAMPLES) if sampled else None,
            )
        )
    every.sort(key=_rank)
    most = sorted(every[:MOST], key=lambda line: (line.file, line.number))
    return tuple(most), len(every[MOST:])


def _rank(line: LineWork) -> tuple[object, ...]:
    return -(line.local or 0.0), -(line.instructions or 0.0), -(line.samples or 0.0), line.file, line.number


def _local(code: Sequence[ProfiledInstruction], metrics: MetricTable) -> float | None:
    """Return the executed instructions of a line that access local memory.

    Their opcodes show them or, without machine code, the sectors that ncu expects of each.
    """
    if all(instruction.sass for instruction in code):
        accesses = [each for each in code if opcode_of(each.sass).partition(".")[0] in LOCAL_OPCODES]
    elif metrics.instances(_LOCAL_SECTORS):
        accesses = [each for each in code if each.counts.get(_LOCAL_SECTORS)]
    else:
        return None
    return total(accesses, EXECUTED)


def _text(source: str, number: int) -> str:
    lines = lines_of(source)
    return lines[number - 1][:_LONGEST_TEXT] if 1 <= number <= len(lines) else ""
