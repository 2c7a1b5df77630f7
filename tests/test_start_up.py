"""What of a GPU's idle time is the start of a program: told apart from pauses that come again, and left out."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gpuprof.model.run_totals import busy_share, running_s
from gpuprof.model.session import Session
from gpuprof.timeline.trace import Activity
from gpuprof.words.recommendations import recommendation_texts
from gpuprof.words.timeline import timeline_facts
from tests.test_timeline import copy, device, kernel, session, trace


def surveyed(*launches: Activity) -> Session:
    """The session of a program that was recorded from its start."""
    return session(replace(trace(*launches), from_start=True))


def start_up_s(made: Session) -> float | None:
    """What is taken for its start-up."""
    gaps = device(made).gaps
    assert gaps is not None
    return gaps.start_up_s


def turns(first_us: float) -> list[Activity]:
    """Five turns of a and b, each 45 µs behind a pause of 5; the first launch of b waits so long."""
    launches = [kernel("a", 0, 45), kernel("b", 45 + first_us, 45)]
    for turn in range(1, 5):
        at = 90 + first_us + 100 * (turn - 1)
        launches += [kernel("a", at + 5, 45), kernel("b", at + 55, 45)]
    return launches


def test_what_does_not_come_again_is_no_idle_time() -> None:
    made = surveyed(*turns(900))
    gaps = device(made).gaps
    assert gaps is not None and start_up_s(made) == pytest.approx(900e-6)
    assert (gaps.count, gaps.total_s, gaps.longest_s) == pytest.approx((8, 40e-6, 5e-6))
    assert running_s(device(made)) == pytest.approx(490e-6)
    facts = dict(timeline_facts(made))
    assert re.findall(r"\d+ µs|\d+ %", facts["GPU time"])[:2] == ["92 %", "490 µs"]
    assert facts["start-up"].startswith("900 µs")
    assert facts["pauses"].startswith("8 pauses, 40.0 µs ") and "8.2 %" in facts["pauses"]


def test_a_pause_that_comes_again_is_idle_time_the_first_time_too() -> None:
    launches = [
        item for turn in range(0, 4000, 1000) for item in (kernel("a", turn, 100), kernel("b", turn + 500, 100))
    ]
    assert start_up_s(surveyed(*launches)) == 0
    # One of the later ones waits 400 µs: 1000 is no more than three times as long as that, 1300 is.
    for first_us, told_s in ((1000, 0.0), (1300, 1300e-6)):
        launches = [*turns(first_us), kernel("a", first_us + 500, 10), kernel("b", first_us + 910, 10)]
        assert start_up_s(surveyed(*launches)) == pytest.approx(told_s)


def test_a_program_that_launches_everything_once_waits_for_its_own_work() -> None:
    made = surveyed(*[kernel(f"k{number}", 3100 * number, 100) for number in range(40)])
    assert start_up_s(made) == 0
    assert any(finding.rule == "launch-gaps" for item in made.kernels for finding in item.findings)


def test_the_share_of_the_run_that_kernels_take_is_that_after_the_start() -> None:
    launches = (copy("host to device", 0, 10, 8), kernel("a", 4010, 30), kernel("b", 4060, 40))
    assert busy_share(session(trace(*launches))) == pytest.approx(70 / 4100)
    # Without the 4 ms before the first kernel: 10 µs of copying, 30 and 40 of kernels, 20 between them.
    assert busy_share(surveyed(*launches)) == pytest.approx(0.7)


def test_idle_time_before_one_kernel_names_it() -> None:
    # Each a comes 100 µs after a b, which comes 2 µs after an a.
    pairs = [(kernel("a", 202 * number, 50), kernel("b", 202 * number + 52, 50)) for number in range(20)]
    made = session(trace(*[item for pair in pairs for item in pair]))
    (fix,) = (item for item in recommendation_texts(made) if item.rule == "launch-gaps")
    assert fix.name.startswith("#") and not fix.everywhere
    # Each of three ends a third.
    alike = session(trace(*[kernel("abc"[number % 3], 100 * number, 50) for number in range(39)]))
    (fix,) = (item for item in recommendation_texts(alike) if item.rule == "launch-gaps")
    assert fix.name == "whole run"
