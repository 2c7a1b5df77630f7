"""The words of ncu's command lines: metrics of each set, quoting for a shell, switches as the help writes them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.collect.metrics import LAUNCH, limit_metrics, metrics_of, question_metrics
from gpuprof.collect.ncu_help import options_in
from gpuprof.collect.shell import shell_line
from gpuprof.diagnose.registry import RULES
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import LEVELS, ArchSpec
from gpuprof.hardware.specs import metrics_of as metrics_of_link
from tests.table import each_row


def _arch(name: str) -> ArchSpec:
    spec = SpecLibrary().arch(name)
    assert spec is not None
    return spec


SM_90 = _arch("sm_90")


def test_the_larger_sets_have_what_the_smaller_have() -> None:
    sets = [set(metrics_of(SM_90, name)) for name in ("roofline", "diagnose", "full")]
    assert set(limit_metrics(SM_90)) < sets[0] < sets[1] <= sets[2]
    assert len(metrics_of(SM_90, "diagnose")) == len(sets[1])


def test_nothing_is_asked_for_that_takes_many_passes_and_is_told_by_others() -> None:
    metrics = metrics_of(SM_90, "diagnose")
    whole_units = ("sm__throughput", "lts__throughput", "l1tex__throughput", "gpu__compute_memory_throughput")
    assert not [metric for metric in metrics if metric.startswith((*whole_units, "smsp__average_warps_issue_stalled"))]
    assert "smsp__pcsamp_sample_count" in metrics
    asked = question_metrics(SM_90, ["work", "memory", "pipes", "waits"])
    assert not [metric for metric in asked if metric.startswith("sm__ops_path")]
    assert not {*asked}.intersection(limit_metrics(SM_90)) - {"gpu__time_duration.sum", *LAUNCH}


ARCHS = tuple(_arch(path.stem) for path in SpecLibrary().arch_files() if path.stem.startswith("sm_"))
BY_PARTS = {"throughput.sm"}
"""It is the largest of issue slots and pipes."""
NOT_COLLECTED = {"sm_87": {"throughput.memory"}}
"""What no set has of an architecture. The memory of GA10B is the host's: there are no counters of DRAM."""


def test_the_limits_tell_what_each_level_of_memory_moves_on_every_architecture() -> None:
    assert len(ARCHS) == 13
    for arch in ARCHS:
        for quantity in ("duration", *(f"{kind}.{level}" for kind in ("traffic", "throughput") for level in LEVELS)):
            assert has(limit_metrics(arch), arch, quantity), (arch.name, quantity)


def test_the_default_set_has_each_counter_that_is_read_or_it_is_named_as_not_collected() -> None:
    for arch in ARCHS:
        metrics = metrics_of(arch, "diagnose")
        lacking = {quantity for quantity in arch.counters if not has(metrics, arch, quantity)} - BY_PARTS
        lacking |= {metric for rule in RULES for metric in rule.metrics} - {*metrics}
        assert lacking == NOT_COLLECTED.get(arch.name, set()), arch.name
        assert all(
            has(limit_metrics(arch), arch, part) for part in ("scheduler.issue-slots", "pipe.tensor", "pipe.fma")
        )


def has(metrics: Sequence[str], arch: ArchSpec, quantity: str) -> bool:
    """Whether one of the ways to a quantity has all that it needs."""
    return any({*metrics}.issuperset(metrics_of_link(link)) for link in arch.counters[quantity])


@settings(max_examples=10)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1))
def test_a_shell_line_is_one_line_of_the_same_words(words: list[str]) -> None:
    line = shell_line(words)
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == words


@each_row(
    ("values", "words"),
    [("on/off\n   yes/no", ("on", "off")), ("yes/no", ("yes", "no")), ("0 or 1", ("1", "0")), ("", ("on", "off"))],
)
def test_an_option_is_switched_with_the_words_of_its_help(values: str, words: tuple[str, str]) -> None:
    known = options_in(f"  --x arg (=1)   Allowed values:\n   {values}\n  -f [ --y ]   another\n")
    assert known.switch("x") == words
    assert known.has("y") and not known.has("z") and known.switch("z") is None
