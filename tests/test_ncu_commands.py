"""The words of ncu's command lines: metrics of each set, quoting for a shell, switches as the help writes them."""

from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.collect.metrics import metrics_of
from gpuprof.collect.ncu_help import options_in
from gpuprof.collect.shell import shell_line
from gpuprof.diagnose.registry import RULES
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from tests.table import each_row


def _arch(name: str) -> ArchSpec:
    spec = SpecLibrary().arch(name)
    assert spec is not None
    return spec


SM_90 = _arch("sm_90")


def test_the_larger_sets_have_what_the_smaller_have() -> None:
    sets = [set(metrics_of(SM_90, name)) for name in ("roofline", "diagnose", "full")]
    assert sets[0] < sets[1] <= sets[2]
    assert {metric for rule in RULES for metric in rule.metrics} <= sets[1]
    assert "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio" in sets[1]
    assert len(metrics_of(SM_90, "diagnose")) == len(sets[1])


def test_refused_metrics_are_not_asked_for_again() -> None:
    assert "dram__bytes.sum" not in metrics_of(SM_90, "roofline", without=["dram__bytes.sum"])


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
