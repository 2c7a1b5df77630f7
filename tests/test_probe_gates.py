"""Every kernel of the probes that ship passes its gate: on Hopper, a few also on each other target.

GPUPROF_ALL_VARIANTS=1 checks all variants on all targets; that takes minutes (make test-all).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from gpuprof.characterize.gates.check import Variant, check, variants
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Probe, all_targets
from tests.cuda_tools import ALL_VARIANTS, needs_cuda_wheels

pytestmark = pytest.mark.timeout(3600 if ALL_VARIANTS else 300)
LIBRARY = load_probes(probe_folder())
PROBES = [probe for probe in LIBRARY if probe.kernel is not None]
HOPPER = "sm_90a"
OTHERS = [target for target in all_targets() if target != HOPPER]
PARTS = 4
"""So many tests share the probes on Hopper, and so many processes can."""
ISSUE_BOUND = ("ffma", "fadd", "fmul", "hfma2", "hfma2-bf16")


def on_hopper(number: int, probe: Probe) -> Iterator[Variant]:
    """The default variant on Hopper; of every sixth probe all variants."""
    of_probe = list(variants(probe, HOPPER))
    yield from of_probe if ALL_VARIANTS or number % 6 == 0 else of_probe[:1]


def elsewhere() -> Iterator[Variant]:
    """The default variant of a few probes on each other target, and of those that are not for Hopper on their first."""
    for place, target in enumerate(OTHERS):
        of_target = [probe for probe in PROBES if target in probe.targets]
        if ALL_VARIANTS:
            for probe in of_target:
                yield from variants(probe, target)
            continue
        for number, probe in enumerate(of_target):
            if number % 40 == 3 * place or (HOPPER not in probe.targets and probe.targets[0] == target):
                yield next(variants(probe, target))


def assert_gates_pass(chosen: Sequence[Variant]) -> None:
    """Compile and judge variants together, for nvdisasm starts slowly."""
    wrong = []
    for variant, compiled, judgement in check(chosen):
        # The nvdisasm wheels do not read sm_70, that of CUDA 12 does; nor does NVRTC 13 compile for it.
        unread = judgement.gate is None or (compiled is None and "nvidia-cuda-nvrtc-cu12" in judgement.why)
        if judgement.gate not in {"pass", "emulated"} and not (variant.target == "sm_70" and unread):
            wrong.append(f"{variant.probe.id} {variant.target} {dict(variant.assignment)}: {judgement.why}")
    assert not wrong, "\n".join(wrong)


@needs_cuda_wheels
@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_pass_their_gates_on_hopper(part: int) -> None:
    assert_gates_pass([variant for number, probe in enumerate(PROBES) if number % PARTS == part
                       for variant in on_hopper(number // PARTS, probe)])  # fmt: skip


@needs_cuda_wheels
def test_kernels_pass_their_gates_on_other_targets() -> None:
    assert_gates_pass(list(elsewhere()))


def test_every_probe_and_target_is_chosen_for_a_gate() -> None:
    on_one = {probe.id for number, probe in enumerate(PROBES) for _ in on_hopper(number, probe)}
    others = list(elsewhere())
    assert on_one | {variant.probe.id for variant in others} == {probe.id for probe in PROBES}
    counts = Counter(variant.target for variant in others)
    assert counts.keys() == set(OTHERS)
    assert min(counts.values()) >= 3, counts


@needs_cuda_wheels
def test_what_takes_every_issue_slot_leaves_less_than_a_percent_to_its_loop() -> None:
    """A scheduler of Hopper issues one instruction a clock, and its pipe takes one: the loop's own cost rate."""
    probes = {probe.id: probe for probe in PROBES}
    chosen = [(name, variant) for name in ISSUE_BOUND
              for variant in variants(probes[f"instruction/{name}-throughput"], HOPPER)]  # fmt: skip
    best: dict[str, float] = {}
    for (name, _), item in zip(chosen, check([variant for _, variant in chosen]), strict=True):
        opcodes, meant = item.judgement.opcodes, name.partition("-")[0].upper()
        share = sum(count for opcode, count in opcodes.items() if opcode.startswith(meant)) / sum(opcodes.values())
        best[name] = max(share, best.get(name, 0.0))
    assert best.keys() == set(ISSUE_BOUND)
    assert min(best.values()) > 0.99, best


def test_probes_of_the_host_alone_have_no_variant() -> None:
    alone = [probe for probe in LIBRARY if probe.kernel is None]
    assert alone
    assert [variant for probe in alone for target in probe.targets for variant in variants(probe, target)] == []
