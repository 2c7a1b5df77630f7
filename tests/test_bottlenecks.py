"""The planted bottlenecks: every cause is in the compiled code and gone from its fix; broken files are refused."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmarks.diagnosis.case import FAMILIES, NONE, TARGETS, Case, Room
from benchmarks.diagnosis.case_file import load_cases, read_case
from benchmarks.diagnosis.gate import Answer, check_cases
from benchmarks.diagnosis.worth import HALVES, half
from gpuprof.diagnose.registry import RULES
from gpuprof.errors import UsageError
from gpuprof.hardware.yaml_tree import BrokenSpec
from tests.cuda_tools import ALL_VARIANTS, needs_cuda_wheels
from tests.table import each_row
from tests.test_diagnosis_score import FILE, SOURCE

pytestmark = pytest.mark.timeout(3600 if ALL_VARIANTS else 300)
CASES = load_cases()
HOPPER = "sm_90a"
OTHERS = [target for target in TARGETS if target != HOPPER]
PARTS = 4
"""So many tests share the cases on Hopper, and so many processes can."""
LONG = ("quadratic-network", "chebyshev-bank")
"""These take as long to compile as 50 others: the first is left to GPUPROF_ALL_VARIANTS, the second but for Hopper."""
every_case = each_row("case", CASES, ids=[case.name for case in CASES])
GIVEN_AWAY = re.compile(
    r"coalesc|conflict|spill|diverg|contention|bottleneck|imbalanc|occupanc|tail effect|unfused|narrow access",
    re.IGNORECASE,
)
"""Words that would say in `slow` what is wrong with it."""


def elsewhere(target: str) -> Sequence[Case]:
    """Every fourth case, on one of the other targets in turn; with GPUPROF_ALL_VARIANTS all on all."""
    if ALL_VARIANTS:
        return CASES
    chosen = [case for case in CASES if case.name not in LONG][::4]
    return [case for number, case in enumerate(chosen) if OTHERS[number % len(OTHERS)] == target]


def on_hopper(part: int) -> Sequence[Case]:
    """A part of the cases."""
    return [case for case in CASES[part::PARTS] if ALL_VARIANTS or case.name != LONG[0]]


@cache
def answers(part: int, target: str) -> tuple[Answer, ...]:
    """What the gate says of cases that are judged together, for the disassembler starts slowly."""
    return check_cases(on_hopper(part) if target == HOPPER else elsewhere(target), target)


def wrong(answer: Answer) -> bool:
    return answer.gate != ("pass" if answer.target in answer.case.targets else "unsupported")


@needs_cuda_wheels
@pytest.mark.parametrize("part", range(PARTS))
def test_on_hopper_the_cause_is_in_the_code_of_slow_and_gone_from_fixed(part: int) -> None:
    assert {answer.case.name: answer.why for answer in answers(part, HOPPER) if wrong(answer)} == {}


@needs_cuda_wheels
@pytest.mark.parametrize("target", OTHERS)
def test_on_other_targets_the_cause_is_in_the_code_of_slow_and_gone_from_fixed(target: str) -> None:
    judged = answers(0, target)
    assert len(judged) >= 1
    assert {answer.case.name: answer.why for answer in judged if wrong(answer)} == {}


@needs_cuda_wheels
@pytest.mark.skipif(not ALL_VARIANTS, reason="an excuse may be needed on one target only: all must be judged")
def test_no_second_cause_is_excused_that_is_on_no_target() -> None:
    parts = [*((part, HOPPER) for part in range(PARTS)), *((0, target) for target in OTHERS)]
    needed: dict[str, set[str]] = {case.name: set() for case in CASES}
    for answer in (answer for part in parts for answer in answers(*part)):
        needed[answer.case.name] |= set(answer.excused)
    assert needed == {case.name: set(case.besides) for case in CASES}


def test_there_are_enough_cases_and_every_rule_that_concerns_one_kernel_has_one() -> None:
    planted = Counter(case.planted_rule for case in CASES)
    assert len(CASES) >= 40
    # A kernel that stores nothing has no twin that leaves the same results in less time.
    plantable = {
        rule.id
        for rule in RULES
        if not (rule.of_run or rule.of_launches or rule.of_libraries) and rule.invalidates != "time"
    }
    assert plantable <= set(planted)
    assert {case.family for case in CASES} == set(FAMILIES)
    assert planted[NONE] >= 4
    limiters = {case.limiter for case in CASES if case.planted_rule == "low-occupancy"}
    assert limiters >= {"registers", "shared memory", "block size"}


def test_both_halves_have_cases_of_their_own() -> None:
    sizes = Counter(half(case.name) for case in CASES)
    assert set(sizes) == set(HALVES)
    assert min(sizes.values()) >= len(CASES) / 3
    rules = Counter(case.planted_rule for case in CASES)
    for rule, count in rules.items():
        assert count == 1 or {half(case.name) for case in CASES if case.planted_rule == rule} == set(HALVES), rule


@every_case
def test_nothing_gives_the_cause_away(case: Case) -> None:
    text = case.source.read_text(encoding="utf-8")
    slow = text.partition('extern "C" __global__')[2].partition('extern "C" __global__')[0]
    assert not GIVEN_AWAY.search(case.name)
    assert not GIVEN_AWAY.search(slow)
    assert text.startswith("// ")


@every_case
def test_launches_fit_every_gpu(case: Case) -> None:
    for entry in case.entries:
        for sizes, room in ((case.small, Room(2, 2)), (case.sized(Room(132, 4)), Room(132, 4))):
            shape = case.launches[entry].shape(sizes, room)
            assert 1 <= shape.threads <= 1024
            assert all(1 <= blocks < 2**31 for blocks in shape.grid)
            assert shape.grid[1] < 2**16 and shape.grid[2] < 2**16
            assert shape.shared_bytes <= 227 * 1024


@every_case
def test_buffers_fit_a_small_gpu(case: Case) -> None:
    sizes = case.sized(Room(132, 16))
    width = {"8": 1, "16": 2, "32": 4, "64": 8}
    total = sum(
        buffer.count.value(sizes) * width[re.sub(r"\D", "", buffer.type)] for buffer in case.buffers.values()
    )  # fmt: skip
    assert total <= 6e9


# The files


def broken(folder: Path, old: str, new: str) -> str:
    assert old in FILE
    (folder / "doubles.yaml").write_text(FILE.replace(old, new))
    (folder / "doubles.cu").write_text(SOURCE)
    with pytest.raises(BrokenSpec) as caught:
        read_case(folder / "doubles.yaml")
    assert "doubles.yaml:" in str(caught.value)
    return caught.value.problem


@each_row(
    ("old", "new", "complaint"),
    [
        ("schema: 1", "schema: 2", "not one of"),
        ("name: doubles", "name: triples", "not one of doubles"),
        ("family: coalescing", "family: other", "not one of"),
        ("uncoalesced-global", "unheard-of", "not one of"),
        ("in[threadIdx.x * n]", "nowhere", "0 lines"),
        ("in[threadIdx.x * n]", "out[threadIdx.x]", None),
        ("not_first: [memory-latency]", "not_first: [uncoalesced-global]", "must come first"),
        ("fix: reads what lies side by side\n", "", "fix is missing"),
        ("sizes: {n: 1000}", "sizes: {n: 0}", "whole number"),
        ("small: {n: 10}", "small: {m: 10}", "small must give n"),
        ("u32 n]", "u32 m]", "an argument is"),
        ("arguments: [buffer in,", "arguments: [buffer other,", "arguments and buffers differ"),
        (", result: 1e-6", "", "no buffer is a result"),
        ("fill: random", "fill: noise", "not one of"),
        ("fill: random", "fill: {below: 3, zipf: 4}", "one thing"),
        ("type: f32, count: n,", "type: f8, count: n,", "not one of"),
        ("grid: [n]", "grid: [{cover: n, sms: 2}]", "a grid covers"),
        ("block: [8]", "block: [1, 1, 1, 1]", "one to three"),
        ("{required: {IMAD: {least: 1}}}", "{}", "must say something"),
        ("{forbidden: [IMAD]}", "{required: {IMAD: {least: 1}}}", "them apart"),
        ("{forbidden: [IMAD]}", "{sectors: {LDG: {}}}", "needs least or most"),
        ("architectures: {lowest: sm_80}", "architectures: {targets: [sm_75]}", "none of"),
        ("planted_rule: uncoalesced-global", "planted_rule: low-occupancy", "limiter belongs"),
        ("planted_rule: uncoalesced-global", "planted_rule: none", "the kernels fixed"),
        ("u32 n]", "u32 1.5]", "an argument is"),
        ("u32 n]", "u32 -1]", "an argument is"),
        ("u32 n]", "f32 nan]", "an argument is"),
        ("fill: random", "fill: {below: 0}", "whole number above zero"),
        ("fill: random", "fill: {offsets: {short: 1, long: 9, every: 0}}", "whole number"),
        ("block: [8]", "block: [8], cluster: 2", "unknown key"),
        ("architectures:", "besides: {colour: why}\narchitectures:", "unknown key"),
        ("gate:", "options: {slow: [--use_fast_math]}\ngate:", "not one of --device-debug"),
        ("gate:", "options: {third: [--device-debug]}\ngate:", "unknown key"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, complaint: str | None) -> None:
    if complaint is None and "out[" in new:
        (tmp_path / "doubles.yaml").write_text(FILE.replace(old, new))
        (tmp_path / "doubles.cu").write_text(SOURCE)
        assert read_case(tmp_path / "doubles.yaml").lines == (4,)
    else:
        assert (complaint or "") in broken(tmp_path, old, new)


@each_row(
    "content",
    [
        SOURCE.replace("slow", "other").encode(),
        SOURCE.replace("fixed", "slow", 1).replace("slow", "fixed", 1).encode(),
        SOURCE.partition("extern")[0].encode(),
        b"\xff\xfe",
    ],
)
def test_a_source_without_both_kernels_in_order_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "doubles.yaml").write_text(FILE)
    (tmp_path / "doubles.cu").write_bytes(content)
    with pytest.raises(BrokenSpec):
        read_case(tmp_path / "doubles.yaml")


def answer_to(case: Case, target: str) -> Answer:
    (answer,) = check_cases([case], target)
    return answer


@pytest.fixture
def doubles(tmp_path: Path) -> Callable[[str], Case]:
    """Read the case of the tests from another file."""
    (tmp_path / "doubles.cu").write_text(SOURCE)
    shutil.copy(CASES[0].source.parent / "case.cuh", tmp_path)

    def read(text: str) -> Case:
        (tmp_path / "doubles.yaml").write_text(text)
        return read_case(tmp_path / "doubles.yaml")

    return read


REQUIRED = "{required: {IMAD: {least: 1}}}"


@needs_cuda_wheels
@each_row(
    ("text", "target", "told", "absent"),
    [
        (FILE.replace("block: [8]", "block: [8], shared: 200000"), "sm_86", ["block"], ["IMAD"]),
        (FILE.replace("IMAD: {least: 1}", "LDG: {least: 1}"), "sm_90a", ["lets fixed pass"], []),
        (FILE.replace(REQUIRED, "{sectors: {LDG: {least: 32}}, registers: {least: 99}}")
         .replace("{forbidden: [IMAD]}", "{sectors: {LDG: {most: 4}}}"), "sm_80",
         ["slow: registers is", "slow: at most 8 sectors", "32"], ["fixed:"]),
    ],
)  # fmt: skip
def test_a_case_fails_where_its_cause_is_not_in_the_code(
    doubles: Callable[[str], Case], text: str, target: str, told: list[str], absent: list[str]
) -> None:
    answer = answer_to(doubles(text), target)
    assert answer.gate == "fail"
    assert [part for part in told if part not in answer.why] == [], answer.why
    assert [part for part in absent if part in answer.why] == [], answer.why


@needs_cuda_wheels
def test_an_option_of_one_kernel_leaves_the_other_as_it_is(doubles: Callable[[str], Case]) -> None:
    text = FILE.replace(REQUIRED, "{self_moves: {least: 10}}").replace("{forbidden: [IMAD]}", "{self_moves: 0}")
    without = answer_to(doubles(text), "sm_90a")
    assert "slow: self_moves is 0" in without.why
    optioned = answer_to(doubles(text + "options: {slow: [--device-debug]}\n"), "sm_90a")
    assert "self_moves" not in optioned.why
    assert optioned.kernels["fixed"].code == without.kernels["fixed"].code
    assert optioned.kernels["slow"].code != without.kernels["slow"].code


OTHER_BLOCKS = "launch: {slow: {grid: [n], block: [8]}, fixed: {grid: [n], block: [16]}}"
FOUR = "((const float4 *)in)[threadIdx.x]"


@needs_cuda_wheels
@each_row(
    ("old", "new", "traits"),
    [
        ("launch: {grid: [n], block: [8]}", OTHER_BLOCKS, ("block",)),
        ("= in[threadIdx.x];", f"= {FOUR}.x + {FOUR}.y + {FOUR}.z + {FOUR}.w;", ("width", "instructions")),
        ("= in[threadIdx.x * n];", "= powf(in[threadIdx.x * n], 3.3f);", ("instructions",)),
    ],
)
def test_a_second_cause_fails_until_the_case_excuses_it(
    tmp_path: Path, old: str, new: str, traits: tuple[str, ...]
) -> None:
    shutil.copy(CASES[0].source.parent / "case.cuh", tmp_path)
    (tmp_path / "doubles.cu").write_text(SOURCE.replace(old, new))
    (tmp_path / "doubles.yaml").write_text(FILE.replace(old, new))
    failed = answer_to(read_case(tmp_path / "doubles.yaml"), "sm_90a")
    assert failed.gate == "fail"
    assert all(f"{trait} must be excused" in failed.why for trait in traits)
    excuses = ", ".join(f"{trait}: the reason" for trait in traits)
    (tmp_path / "doubles.yaml").write_text(FILE.replace(old, new) + f"besides: {{{excuses}}}\n")
    excused = answer_to(read_case(tmp_path / "doubles.yaml"), "sm_90a")
    assert "a second cause" not in excused.why
    assert excused.excused == traits


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(UsageError):
        load_cases(["nothing-of-the-kind"])
