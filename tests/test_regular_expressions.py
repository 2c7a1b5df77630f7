"""No regular expression of gpuprof takes more than linear time on any text, however it was made."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import pytest

from gpuprof.collect.name_filter import by_name, by_symbol
from gpuprof.model import kernel_kinds
from gpuprof.model.kernel_filter_regex import unique_expression
from gpuprof.model.kernel_kinds import kind_by_name
from gpuprof.read.printed_launch import short_name
from gpuprof.units import parse_quantity
from tests.regular_expressions import Pattern, attacks, find_expressions, may_be_exponential
from tests.table import each_row

_SHORT = (16, 24, 36, 55, 80)
"""Lengths at which exponential growth shows before it takes minutes."""
_STAGES: tuple[tuple[int, int], ...] = ((200, 10), (2_000, 3), (10_000, 1), (100_000, 0))
"""Characters of the texts, and how many of the slowest texts are tried at the next length."""
_SUSPECT_S = 5e-8
"""Seconds for each character that most linear expressions do not take: what takes less is not tried at more length."""
_LEAST_S = 2e-3
"""Seconds that are no sign of anything."""
_LINEAR_S = 1e-6
"""Seconds for each character that no linear expression takes; a quadratic one takes more of 100 kB."""
_FAR_S = 1e-5
"""Seconds for each character that end the try: the next length would take minutes."""

_CUT_S = 0.1
"""Seconds for a text that is cut first."""

_CUT: Mapping[str, Callable[[str], str]] = {"model/kernel_kinds.py": kernel_kinds._pieces}
"""What files make of a text before the expressions in their values meet it: words, of its first few hundred bytes."""

_TYPED = frozenset(
    {
        ("collect/planner.py", "request.kernel"),
        ("collect/request.py", "request.kernel or ''"),
        ("model/kernel_match.py", "text"),
    }
)
"""Expressions that a user types. The user waits for the user's own."""
_IN_VALUES = frozenset(
    {
        ("collect/failure_table.py", "pattern"),
        ("model/kernel_kinds.py", "f\"_(?:{'|'.join(self.alternatives)})(?=_)\""),
        ("views/glossary.py", "term.pattern"),
        ("read/other_tools.py", "self.expression"),
        ("read/metric_units.py", "pattern"),
    }
)
"""Those that are found in the values of their modules."""
_NAMES = ("void ns::first<int, (Kind)3>(float *, std::pair<int, char> const &)", "second_kernel", "a<b>::c(int) [x]")
_FILTERS = (by_name(_NAMES).expression, by_symbol(["_Z5firstPfi", "_ZN2ns6secondIfEEvT_", "triton_poi_0d1"]).expression)
_COMPOSED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("collect/name_filter.py", "f'^({expression})'"): _FILTERS,
    ("collect/ncu_help.py", "f'(?<![\\\\w-]){re.escape(value)}(?![\\\\w-])'"): (r"(?<![\w-])a\-a(?![\w-])",),
    ("collect/plan.py", "names.expression"): _FILTERS,
    ("collect/ranks.py", "re.escape(before) + '(\\\\d+)' + re.escape(after)"): (r"1\.rank(\d+)1\.csv",),
    ("model/kernel_filter_regex.py", "f'\\\\b{escaped(base)}\\\\b'"): (r"\baa\b", r"\b<<\b"),
    ("model/kernel_filter_regex.py", "part"): (r"\ba<a\b", r"^aa\b", r"<<"),
    ("hardware/library.py", "f'(?<![\\\\w-]){re.escape(key)}(?![\\\\w-])'"): (r"(?<![\w-])a\ a(?![\w-])",),
    ("views/glossary.py", "f'(?<![\\\\w-]){re.escape(name)} \\\\S+ ?%|(?m:^{re.escape(name)}$)'"): (
        r"(?<![\w-])long\ sb \S+ ?%|(?m:^long\ sb$)",
    ),
    ("privacy/texts.py", "f\"(?<![^\\\\W_])(?:{'|'.join(owners)})(?![^\\\\W_])\""): (r"(?<![^\W_])(?:a|aa)(?![^\W_])",),
    ("read/ncu_csv.py", "row"): (r'\A"\d+","\d+","', r"\A\d+,\d+,"),
    ("read/printed_lines.py", "'|'.join(sorted(labels, key=len, reverse=True))"): (
        r"\[a {0,9}\d{1,30}(?!\d) {0,9}\d{1,30}(?!\d)\]:|a:",
    ),
    ("read/printed_refusal.py", "f'^.{{0,100}}?=={level}==[ \\\\t]*(?P<said>.*)$'"): (
        r"(?m)^.{0,100}?==ERROR==[ \t]*(?P<said>.*)$",
    ),
}
"""Those of a run's own values, as they may be there."""


@pytest.mark.slow
def test_no_expression_takes_more_than_linear_time() -> None:
    """Each is tried by its methods on texts of up to 100 kB that are made from itself."""
    every = find_expressions()
    assert every.composed == _TYPED | _IN_VALUES | _COMPOSED.keys()
    assert {place for place, _ in _IN_VALUES} <= {place for place, _ in every.known.values()}
    tried = [
        *((pattern, place, methods) for pattern, (place, methods) in every.known.items()),
        *((re.compile(text), place, {"finditer"}) for (place, _), texts in _COMPOSED.items() for text in texts),
    ]
    slow = {
        (place, pattern.pattern): growth
        for pattern, place, methods in tried
        if (growth := superlinear(pattern, methods, _CUT.get(place, str))) is not None
    }
    assert not slow


@pytest.mark.slow
@each_row(
    ("expression", "method"),
    [
        (r"\s+$", "search"),
        (r"[\w.]*key=", "search"),
        (r"(a|b|ab)*c", "match"),
        (r"(\w+\s?)*;", "fullmatch"),
        (r"^\s*\.entry", "finditer"),
        (r'"(?:[^"\\]|\\.)*"', "sub"),
        (r"[a-z_]+__[\w.]+", "fullmatch"),
        (r"(?<![\w.])(?:[A-Za-z]:(?=[/\\]))?[\w.]*(?:[/\\][\w.]*)+x", "sub"),
    ],
)  # fmt: skip
def test_more_than_linear_time_is_seen(expression: str, method: str) -> None:
    assert superlinear(re.compile(expression, re.MULTILINE), {method}) is not None


@pytest.mark.slow
@each_row(
    ("expression", "method"),
    [
        (r"\s+$", "match"), (r"(?<!\s)\s+$", "search"), (r"(?<![\w.])[\w.]*key=", "search"), (r"[ab]*c", "match"),
        (r"<[^<>]*>", "findall"), (r"\w{1,200}=", "search"), (r"[^A-Za-z0-9]+", "sub"),
    ],
)  # fmt: skip
def test_linear_time_is_none_of_it(expression: str, method: str) -> None:
    assert superlinear(re.compile(expression), {method}) is None


@each_row(
    "read",
    [
        lambda: unique_expression("k", "k x y z", [50_000 * "k "]),
        lambda: short_name(50_000 * "a<("),
        lambda: kind_by_name(20_000 * "i8a_w4a16_gemm_"),
        lambda: parse_quantity(f"1{50_000 * ' '}\n"),
    ],
    ids=["telling", "name", "kind", "quantity"],
)
def test_functions_that_go_over_a_text_again_and_again_take_less_than_a_second(read: Callable[[], object]) -> None:
    start = time.thread_time()
    with suppress(ValueError):
        read()
    assert time.thread_time() - start < 1


def superlinear(pattern: Pattern, methods: Iterable[str], given: Callable[[str], str] = str) -> str | None:
    """Return how an expression's time grows faster than its text; None if it does not."""
    methods = {name if name in {"search", "match", "fullmatch"} else "finditer" for name in methods}
    chosen = attacks(pattern)
    tried, every = [(0.0, attack) for attack in chosen], len(chosen)
    first = [(length, every) for length in (_SHORT if may_be_exponential(pattern) else ())]
    for length, kept in (*first, *_STAGES):
        timed = []
        for before, attack in tried:
            text = given(attack.text(length))
            seconds = _seconds(pattern, methods, text)
            if seconds > _LINEAR_S * length:
                # Something else may have had its share of this time.
                seconds = min(seconds, *(_seconds(pattern, methods, text) for _ in range(2)))
            is_far = seconds > (_CUT_S if given in _CUT.values() else max(_FAR_S * length, _LEAST_S))
            if is_far or (length == _STAGES[-1][0] and seconds > max(_LINEAR_S * length, 30 * before)):
                return f"{before:.2g} s, and {seconds:.2g} s for {length} characters: {attack}"
            timed.append((seconds, attack))
        tried = sorted(timed, key=lambda each: -each[0])[:kept]
        if length >= _STAGES[1][0]:
            tried = [(seconds, attack) for seconds, attack in tried if seconds > _SUSPECT_S * length]
    return None


def _seconds(pattern: Pattern, methods: Iterable[str], text: str) -> float:
    """Return the processor's time of the slowest method; `sub` and others search as `finditer` does."""
    given = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
    slowest = 0.0
    for method in methods:
        start = time.thread_time()
        matches = getattr(pattern, method)(given)
        if method == "finditer":
            for _ in matches:
                pass
        slowest = max(slowest, time.thread_time() - start)
    return slowest
