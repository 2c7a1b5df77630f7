"""Many kernels reviewed by several processes: order, progress, what is reviewed once, and what goes wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from msgspec import structs

from gpuprof.errors import EnvironmentProblem
from gpuprof.review import batch, parallel
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.review.kernel_review import reviewed_kernel
from gpuprof.review.parallel import disassemblers_for, reviewed_kernels
from gpuprof.sass.binary.cubin import CubinKernel, kernel_code
from gpuprof.sass.tools import disassemble as disassembling
from gpuprof.sass.tools.compile import compiler_for, target_options
from gpuprof.sass.tools.disassemble import Disassembler
from gpuprof.workers import done_by_workers, processors
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

TARGET = "sm_90"
_SOURCE = "".join(
    f'extern "C" __global__ void k{number}(float *a) {{ a[{number} + threadIdx.x * {number + 1}] = {number}; }}\n'
    for number in range(6)
)


def unread(kernel: ReviewedKernel) -> bool:
    """Tell whether a note says that its instructions could not be read; other notes are on what is assumed."""
    return any("could not be read" in note for note in kernel.notes)


forks = pytest.mark.skipif(processors() < 2, reason="one processor, or no processes that can be forked")


@cache
def cubin() -> bytes:
    nvrtc = compiler_for(TARGET)
    assert nvrtc is not None
    outcome = nvrtc.compile(_SOURCE, "batches.cu", target_options(TARGET))
    assert outcome.cubin is not None, outcome.log
    return outcome.cubin


def kernels(count: int = 6) -> list[CompiledKernel]:
    shape = KnownLaunch(block=(256, 1, 1))
    names = [f"k{number}" for number in range(count)]
    code = {name: CubinKernel(mangled=name, code=kernel_code(cubin(), name)) for name in names}
    return [
        CompiledKernel(name=name, target=TARGET, origin="k.cubin", cubin=cubin(), kernel=code[name], shape=shape)
        for name in names
    ]


def broken(kernel: CompiledKernel, code: bytes) -> CompiledKernel:
    return replace(kernel, kernel=structs.replace(kernel.kernel, code=code))


def reviewed(chosen: Sequence[CompiledKernel]) -> list[ReviewedKernel]:
    return list(reviewed_kernels(chosen, lambda *_: None))


@pytest.mark.compilers
@needs_cuda_wheels
def test_kernels_come_in_their_order_and_progress_comes_to_its_end() -> None:
    told: list[tuple[int, int]] = []
    many = list(reviewed_kernels(kernels(), lambda done, whole: told.append((done, whole))))
    assert [(kernel.id, kernel.name) for kernel in many] == [(number, f"k{number}") for number in range(6)]
    whole = sum(len(kernel.kernel.code) for kernel in kernels())
    assert told[0] == (0, whole) and told[-1] == (whole, whole) and told == sorted(told)
    assert all((kernel.resources.instructions or 0) > 5 and not unread(kernel) for kernel in many)
    # What the costs of an address that begins with a pointer rest on is noted.
    assert many[0].accesses[0].sectors_per_request is not None
    assert len(many[0].notes) == 1 and "128 bytes" in many[0].notes[0]


@pytest.mark.compilers
@needs_cuda_wheels
def test_launches_of_the_same_code_are_reviewed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def noted(facts: CodeFacts) -> ReviewedKernel:
        asked.append(facts.kernel.launch)
        return reviewed_kernel(facts)

    monkeypatch.setattr(batch, "reviewed_kernel", noted)
    (kernel,) = kernels(1)
    wider = replace(kernel, shape=KnownLaunch(block=(64, 1, 1)))
    launches = [replace(each, launch=number) for number, each in enumerate((kernel, kernel, wider, kernel))]
    many = reviewed(launches)
    assert asked == [0, 2]
    assert [(entry.id, entry.launch, entry.block) for entry in many] == [
        (0, 0, (256, 1, 1)), (1, 1, (256, 1, 1)), (2, 2, (64, 1, 1)), (3, 3, (256, 1, 1)),
    ]  # fmt: skip


@pytest.mark.compilers
@needs_cuda_wheels
@each_row("code", [b"", b"\xff" * 160, b"\0" * 24, bytes(range(160))])
def test_code_that_cannot_be_read_costs_its_kernel_a_note(code: bytes) -> None:
    chosen = kernels(4)
    chosen[2] = broken(chosen[2], code)
    many = reviewed(chosen)
    assert [unread(kernel) for kernel in many] == [False, False, unread(many[2]), False]
    assert all(many[number].accesses for number in (0, 1, 3))
    if unread(many[2]):
        assert many[2].accesses == ()


def code_for(target: str) -> CompiledKernel:
    kernel = CubinKernel(mangled="k", code=b"\0" * 16)
    return CompiledKernel(name="k", target=target, origin="k", cubin=b"", kernel=kernel, shape=KnownLaunch())


def test_without_nvdisasm_nothing_is_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "find_disassemblers", lambda: ())
    monkeypatch.setattr(parallel, "disassembler_for", lambda _: None)
    with pytest.raises(EnvironmentProblem) as caught:
        disassemblers_for([code_for("sm_90")])
    assert "gpuprof-cli[check]" in (caught.value.hint or "")
    assert disassemblers_for([]) == ((), ())


@each_row(("target", "hint"), [("sm_70", "CUDA 12"), ("sm_61", "sm_70 and newer")])
def test_code_that_no_nvdisasm_here_reads_has_a_note_with_the_one_that_does(
    target: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = (Disassembler(Path("nvdisasm"), (13, 3)),)
    for module, name in ((parallel, "find_disassemblers"), (disassembling, "find_disassemblers")):
        monkeypatch.setattr(module, name, lambda: tools)
    chosen = code_for(target)
    none, (note,) = disassemblers_for([chosen, chosen])
    assert none == ()
    assert target in note and hint in note
    (told,) = batch.reviewed_batch([chosen])
    assert len(told.notes) == 1


# Processes


def outcomes(
    work: Callable[[list[int]], int], jobs: list[list[int]], patience_s: float = 30.0
) -> dict[tuple[int, ...], int | None]:
    return {tuple(job): result for job, result in done_by_workers(jobs, work, 2, lambda _: patience_s)}


@forks
def test_a_process_that_dies_costs_what_it_died_of_alone() -> None:
    def work(job: list[int]) -> int:
        return sum(job) if 3 not in job else os._exit(1)

    assert outcomes(work, [[1, 2], [3, 4, 5], [6]]) == {(1, 2): 3, (3,): None, (4, 5): 9, (6,): 6}


@forks
def test_a_process_that_hangs_is_ended_and_clears_up(tmp_path: Path) -> None:
    def work(job: list[int]) -> int:
        if job == [1]:
            kept = tmp_path / "kept"
            kept.touch()
            try:
                time.sleep(600)
            finally:
                kept.unlink()
        return sum(job)

    assert outcomes(work, [[1], [2]], patience_s=0.5) == {(1,): None, (2,): 2}
    assert list(tmp_path.iterdir()) == []
