"""Every kernel of the probes that ship passes its gate: on all its targets where anything changed, else on a few.

What passed in full is kept with the hash of the probe, the compilers and the code that judges. GPUPROF_ALL_VARIANTS=1
checks all variants on all targets, whatever is kept; that takes minutes (make test-all).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from gpuprof.characterize.gates.check import Checked, Variant, check, variants
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Probe
from gpuprof.code.tools.disassemble import find_disassemblers
from gpuprof.code.tools.nvrtc import find_nvrtc
from gpuprof.resources import data_dir
from tests import kept, kept_code, kept_tools
from tests.cuda_tools import kernel_of, needs_cuda_wheels
from tests.table import each_row

PROBES = [probe for probe in load_probes(probe_folder()) if probe.kernel is not None]
JUDGES = ("code", "hardware", "characterize/gates", "characterize/probes")
PASSED = "passed-gates"


@pytest.fixture(scope="module")
def keys() -> dict[str, str | None]:
    """The hash of all that the gates of each probe follow from, by its name."""
    tools = [
        *map(kept_tools.compiler_key, find_nvrtc()),
        *map(kept_tools.tool_key, find_disassemblers()),
        *judges(),
    ]
    return {probe.id: key_of(probe, tools) for probe in PROBES}


def judges() -> list[str]:
    """The hashes of the code that judges, and of what it reads."""
    package = probe_folder().parent / "gpuprof"
    files = sorted(file for folder in JUDGES for file in (package / folder).rglob("*.py"))
    assert files
    return [*map(kept.hash_of, (*files, Path(__file__))), kept_code.folder_key(data_dir("specs"))]


def key_of(probe: Probe, tools: list[str]) -> str | None:
    source = kernel_of(probe).source
    text = kept_tools.source_key(source.read_text(encoding="utf-8"), [source.parent, source.parent.parent])
    if text is None:
        return None
    return kept.key_of(probe.id, probe.targets, kept.hash_of(source.with_suffix(".yaml")), text, tools)


@pytest.fixture(scope="module")
def known_good(keys: dict[str, str | None]) -> frozenset[str]:
    """The probes whose gates were passed in full as they are now."""
    return frozenset(name for name, key in keys.items() if key is not None and kept.read(PASSED, key) is not None)


@pytest.fixture(scope="module")
def checked(known_good: frozenset[str]) -> dict[str, tuple[Checked, ...]]:
    """What the gate says of the chosen variants, by probe; one run, for nvdisasm starts slowly."""
    answers = check([variant for number, probe in enumerate(PROBES) for variant in chosen(number, probe, known_good)])
    return {probe.id: tuple(one for one in answers if one.variant.probe is probe) for probe in PROBES}


def chosen(number: int, probe: Probe, known_good: frozenset[str]) -> Iterator[Variant]:
    """The default variant on each of the chosen targets; all variants on one of them, another for each probe."""
    one = probe.targets[number % len(probe.targets)]
    quick = probe.id in known_good and not kept.EVERYTHING
    for target in targets_of(number, probe, known_good):
        whole = kept.EVERYTHING or (target == one and not quick)
        yield from islice(variants(probe, target), None if whole else 1)


def targets_of(number: int, probe: Probe, known_good: frozenset[str]) -> tuple[str, ...]:
    """All targets; of a probe that is known to be good, one of them, and Hopper."""
    if kept.EVERYTHING or probe.id not in known_good:
        return probe.targets
    few = {probe.targets[number % len(probe.targets)], "sm_90a"}
    return tuple(target for target in probe.targets if target in few)


@needs_cuda_wheels
@each_row("number", range(len(PROBES)), ids=[probe.id for probe in PROBES])
def test_kernel_passes_its_gate_on_every_target_that_it_names(
    number: int,
    checked: dict[str, tuple[Checked, ...]],
    known_good: frozenset[str],
    keys: dict[str, str | None],
) -> None:
    probe = PROBES[number]
    targets = targets_of(number, probe, known_good)
    assert targets
    assert {item.variant.target for item in checked[probe.id]} == set(targets)
    for item in checked[probe.id]:
        place = f"{item.variant.target} {dict(item.variant.assignment)}"
        if item.judgement.gate is None:
            # The nvdisasm wheels do not read sm_70; that of CUDA 12 does.
            assert item.variant.target == "sm_70", f"{place}: {item.judgement.why}"
        elif item.variant.target == "sm_70" and item.compiled is None:
            assert "nvidia-cuda-nvrtc-cu12" in item.judgement.why, f"{place}: {item.judgement.why}"
        else:
            assert item.judgement.gate in {"pass", "emulated"}, f"{place}: {item.judgement.why}"
    key = keys[probe.id]
    if targets == probe.targets and key is not None:
        kept.write(PASSED, key, b"passed")


@needs_cuda_wheels
@each_row("name", ["ffma", "fadd", "fmul", "hfma2", "hfma2-bf16"])
def test_what_takes_every_issue_slot_leaves_less_than_a_percent_to_its_loop(name: str) -> None:
    """A scheduler of Hopper issues one instruction a clock, and its pipe takes one: the loop's own cost rate."""
    (probe,) = (probe for probe in PROBES if probe.id == f"instruction/{name}-throughput")
    every = [one.judgement.opcodes for one in check(list(variants(probe, "sm_90a")))]
    meant = name.partition("-")[0].upper()
    shares = [
        sum(count for opcode, count in opcodes.items() if opcode.startswith(meant)) / sum(opcodes.values())
        for opcodes in every
    ]
    assert max(shares) > 0.99


def test_probes_of_the_host_alone_have_no_variant() -> None:
    alone = [probe for probe in load_probes(probe_folder()) if probe.kernel is None]
    assert alone
    assert [variant for probe in alone for target in probe.targets for variant in variants(probe, target)] == []


def test_a_probe_is_checked_in_full_until_it_is_known_to_be_good() -> None:
    for number, probe in enumerate(PROBES):
        assert targets_of(number, probe, frozenset()) == probe.targets
        known = frozenset([probe.id])
        if not kept.EVERYTHING:
            assert 1 <= len(list(chosen(number, probe, known))) <= 2
        assert {variant.target for variant in chosen(number, probe, known)} == set(targets_of(number, probe, known))


def test_whatever_a_gate_follows_from_is_in_the_key(tmp_path: Path) -> None:
    text, other = '#include "a.cuh"\nkernel', tmp_path / "other"
    other.mkdir()
    (tmp_path / "a.cuh").write_text("# include <b.cuh>\n")
    keys = [kept_tools.source_key(text, [tmp_path, other])]
    for folder, name in ((tmp_path, "b.cuh"), (other, "b.cuh"), (other, "a.cuh")):
        (folder / name).write_text("one")
        keys.append(kept_tools.source_key(text, [tmp_path, other]))
    (tmp_path / "b.cuh").write_text("two")
    keys.append(kept_tools.source_key(text, [tmp_path, other]))
    assert None not in keys
    assert len(set(keys)) == len(keys)
