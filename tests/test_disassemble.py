"""Instructions read once each, and placed, against the text of nvdisasm for the same code as a whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpuprof.code.binary.cubin import read_cubin
from gpuprof.code.sass.instruction import instruction_of, names_address, parse_sass, with_addresses_moved
from gpuprof.code.tools import disassemble as disassembling
from gpuprof.code.tools.compile import NotCompiled, compile_file, target_options
from gpuprof.code.tools.disassemble import Disassembler, disassemble, disassembler_for
from gpuprof.errors import EnvironmentProblem
from tests.cuda_tools import needs_cuda_wheels
from tests.reviewed_code import TARGETS
from tests.table import each_row

SOURCE = """
__device__ __noinline__ double slow(double x, double y) { return fmod(x, y) / (y + 1); }
extern "C" __global__ void first(double *out, const float *in, int n, double scale) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = slow(in[i] / (in[i + 1] + 1.0e-30), scale) + 3.14159265358979 * (1ll << 40);
        if (out[i] > 0) __syncwarp();
    }
}
extern "C" __global__ void second(double *out, const float *in, int n, double scale) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (in[i] > 0) out[i] = slow(in[i], scale) + 3.14159265358979;
}
"""


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def codes(target: str, folder: Path) -> list[bytes]:
    (folder / "k.cu").write_text(SOURCE, encoding="utf-8")
    outcome = compile_file(folder / "k.cu", target, target_options(target))
    assert not isinstance(outcome, NotCompiled), outcome
    return [kernel.code for kernel in read_cubin(outcome.cubin).kernels]


@needs_cuda_wheels
def test_the_text_is_that_of_the_whole_kernel(target: str, tmp_path: Path) -> None:
    """Each kernel alone has its own addresses in the text of nvdisasm, and all its instructions."""
    tool = disassembler_for(target)
    assert tool is not None
    kernels = codes(target, tmp_path)
    for code, listing in zip(kernels, disassemble(tool, target, kernels), strict=True):
        file = tmp_path / "code.bin"
        file.write_bytes(code)
        command = [str(tool.path), "--binary", target.replace("sm_", "SM"), "--no-dataflow", str(file)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert list(map(str, listing)) == list(map(str, parse_sass(text)))
        assert [item.address for item in listing] == list(range(0, len(code), 16))
    jumps = {item.name for listing in disassemble(tool, target, kernels) for item in listing if item.target is not None}
    assert {"BRA", "CALL"} <= jumps


@needs_cuda_wheels
def test_an_instruction_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembling, "_KNOWN", {})
    asked: list[int] = []
    run = disassembling._run

    def counting(tool: Disassembler, target: str, code: bytes) -> str:
        asked.append(len(code) // 16)
        return run(tool, target, code)

    monkeypatch.setattr(disassembling, "_run", counting)
    tool, kernels = disassembler_for("sm_90"), codes("sm_90", tmp_path)
    assert tool is not None
    first = disassemble(tool, "sm_90", kernels)
    assert disassemble(tool, "sm_90", [kernels[1], kernels[0]]) == [first[1], first[0]]
    whole = sum(map(len, kernels)) // 16
    assert len(asked) == 1 and 0 < asked[0] < whole
    monkeypatch.setattr(disassembling, "_MOST_KNOWN", asked[0] - 1)
    disassemble(tool, "sm_90", kernels[:1])
    assert len(asked) == 2


@needs_cuda_wheels
def test_instructions_that_are_not_known_cost_their_kernels_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disassembling, "_KNOWN", {})
    asked: list[bytes] = []
    run = disassembling._run

    def noting(tool: Disassembler, target: str, code: bytes) -> str:
        asked.append(code)
        return run(tool, target, code)

    monkeypatch.setattr(disassembling, "_run", noting)
    tool, kernels = disassembler_for("sm_90"), codes("sm_90", tmp_path)
    assert tool is not None
    broken = [bytes([number] * 16) + kernels[0] for number in range(0x39, 0x40)]
    listings = disassembling.disassembled(tool, "sm_90", [kernels[1], *broken, kernels[0]])
    told = f"{tool} cannot read code for sm_90: nvdisasm error : Unrecognized operation for functional unit 'uC'"
    assert listings[1:-1] == [told] * len(broken)
    assert [listings[0], listings[-1]] == disassemble(tool, "sm_90", [kernels[1], kernels[0]])
    assert len(asked) == 2
    with pytest.raises(EnvironmentProblem, match="cannot read code for sm_90"):
        disassemble(tool, "sm_90", broken)
    assert len(asked) == 2


@each_row(
    ("text", "moved"),
    [
        ("@P0 BRA 0x10000000030", "@P0 BRA 0x50"),
        ("BRA.U !UP0, 0xfffffffff0", "BRA.U !UP0, 0x10"),
        ("RET.REL.NODEC R2 0x10000000000", "RET.REL.NODEC R2 0x20"),
        ("BSSY B0, 0x10000000010", "BSSY B0, 0x30"),
        ("CALL.ABS.NOINC 0x0", None),
        ("UMOV.64 UR6, 0x10000000030", None),
        ("IADD3 R2, R2, 0x30, RZ", None),
    ],
)
def test_addresses_of_code_are_told_from_other_numbers(text: str, moved: str | None) -> None:
    """The code was read at 2^40, and the instruction lies 0x20 behind that."""
    item = instruction_of(text)
    assert item is not None
    operation, base = item.operation, 1 << 40
    assert names_address(operation, base) == (moved is not None)
    if moved is not None:
        again = with_addresses_moved(operation, base, 0x20 - base)
        expected = instruction_of(moved)
        assert expected is not None and again is expected.operation


def test_what_says_the_same_is_the_same_operation() -> None:
    first, second = instruction_of("@!P0 LDG.E R2, [R4]", 16), instruction_of("@!P0   LDG.E  R2,[R4]", 32)
    assert first is not None and second is not None
    assert first.operation is second.operation and first != second
    assert re.search("0x20", repr(second)) and str(second) == "@!P0 LDG.E R2, [R4]"


def test_texts_are_placed_and_an_address_that_does_not_stand_last_is_not_guessed() -> None:
    base = disassembling._BASE
    texts = ("@P0 BRA 0x10000000030", "IADD3 R2, R2.reuse, 0x30, RZ", "BRA 0x10000000030, P0")
    items = [instruction_of(text, base) for text in texts]
    known = {
        (number, 0): disassembling._Text(item.operation, base if names_address(item.operation, base) else None)
        for number, item in enumerate(items)
        if item is not None
    }
    placed = disassembling._placed_texts(known, [(1, 0), (0, 0)])
    assert not isinstance(placed, str)
    assert [item.at(0x7F00) for item in placed] == ["IADD3 R2, R2, 0x30, RZ", "@P0 BRA 0x7f40"]
    known[2, 0] = disassembling._Text(known[2, 0].operation, base)
    assert "does not stand last" in str(disassembling._placed_texts(known, [(1, 0), (2, 0)]))
