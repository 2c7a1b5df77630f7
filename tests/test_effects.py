"""Kernels that leave nothing behind: what counts as a store, and what is then said of all else."""

from __future__ import annotations

from dataclasses import replace

from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.model.sass_opcodes import may_write_memory
from gpuprof.words.recommendations import recommendation_texts
from tests.kernels import Made, busy, coded, lasting, made, session
from tests.table import each_row

GEMM = "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<float>>(T1::Params)"
READS: dict[str | int, float] = {
    "LDG.E.128": 4_000.0, "IADD3": 90_000.0, "STS.128": 1_000.0, "REDUX.SUM": 10.0, "UBLKCP.S.G": 8.0,
}  # fmt: skip
SMALL = (1, 1, 1)


def running(*more: tuple[str, float], name: str = GEMM, seconds: float = 1e-3) -> Made:
    """A kernel of one block that reads, and these instructions."""
    return made(busy(l2=6), lasting(seconds), histograms={WARP_OPCODES: {**READS, **dict(more)}}, grid=SMALL, name=name)


@each_row(
    "opcode",
    ["STG.E.128", "ST.E", "RED.E.ADD", "REDG.E.ADD", "ATOM.E.ADD", "ATOMG.E.CAS", "SUST.P", "UTMASTG.2D", "UTMAREDG.2D",
     "UBLKRED", "UBLKCP.G.S", "UBLKCP", "USTGR", "UREDGR"],
)  # fmt: skip
def test_whatever_writes_to_memory_is_no_kernel_without_effect(opcode: str) -> None:
    assert may_write_memory(opcode)
    assert running((opcode, 1.0)).findings("stores-nothing") == []


@each_row("opcode", ["STS", "STL.64", "STSM.16.M88.4", "STAS", "ATOMS.ADD", "REDUX", "UBLKCP.S.G",
                                    "UTMALDG.2D", "UTMAPF", "UBLKPF", "LDGSTS.E", "S2R", "SYNCS"])  # fmt: skip
def test_what_stays_in_the_block_is_no_store(opcode: str) -> None:
    assert not may_write_memory(opcode)
    assert running((opcode, 9.0)).finding("stores-nothing").severity == "high"


def test_a_store_that_is_never_executed_or_by_no_thread_stores_nothing() -> None:
    assert running(("STG.E", 0.0)).finding("stores-nothing")
    off = running(("STG.E", 100.0))
    threads: dict[str | int, float] = {"LDG": 128_000.0, "IADD3": 2.88e6, "STG": 0.0}
    assert replace(off, histograms={**off.histograms, THREAD_OPCODES: threads}).finding("stores-nothing")
    # A copy engine is started by one thread, whichever count that makes.
    bulk = running(("UTMASTG.2D", 4.0))
    assert replace(bulk, histograms={**bulk.histograms, THREAD_OPCODES: threads}).findings("stores-nothing") == []


def test_it_is_told_of_counted_code_and_not_of_empty_kernels() -> None:
    code = replace(coded(("LDG.E R2, [R2.64]", 64), ("@P0 STG.E [R4.64], R2", 0), ("EXIT", 64)), name=GEMM)
    assert "128 executed instructions" in code.finding("stores-nothing").headline
    few = replace(coded(("LDG.E R2, [R2.64]", 6), ("EXIT", 6)), name=GEMM)
    assert "none of its 12 executed instructions writes" in few.finding("stores-nothing").headline
    assert replace(coded(("LDG.E R2, [R2.64]", 64), ("", 64)), name=GEMM).findings("stores-nothing") == []
    assert made(busy(l2=6), lasting(), name=GEMM).findings("stores-nothing") == []
    empty = made(busy(l2=6), lasting(2e-6), histograms={WARP_OPCODES: {"LDC": 1.0, "EXIT": 1.0}}, name="empty")
    assert empty.findings("stores-nothing") == []
    assert running(seconds=2e-6).finding("stores-nothing").severity == "high"


def test_all_else_goes_with_it_and_the_verdict_and_the_first_fix_are_about_it() -> None:
    judged = session(running())
    (kernel,) = judged.kernels
    assert kernel.findings[0].rule == "stores-nothing"
    others = [finding for finding in kernel.findings if finding.rule != "stores-nothing"]
    assert "small-grid" in [finding.rule for finding in others]
    assert {finding.cause for finding in others} == {"0.stores-nothing"}
    assert judged.verdict is not None and judged.verdict.state == "void"
    assert (judged.verdict.unknown, judged.verdict.command) == (None, None)
    assert [fix.rule for fix in recommendation_texts(judged)] == ["stores-nothing"]
    # Without tensor instructions and floating-point products it is not said to multiply. IMAD computes addresses, too.
    for opcode, multiplies in {"HMMA.16816.F32": True, "FFMA2": True, "IMAD.WIDE": False}.items():
        headline = running((opcode, 64.0)).finding("stores-nothing").cases.headline
        assert ("no-product" in headline) is not multiplies, opcode
