"""Which cases may be tuned on and which are held out, and in which order recording them is worth most."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

HALVES = ("tuned", "held out")
"""Thresholds may be tuned on the first half alone."""
_SALT = "428"
"""With it each rule that has several cases has some in both halves. It does not change any more."""


def half(name: str) -> str:
    """Return which half a case belongs to: by a hash of its name, so that it never changes."""
    return HALVES[hashlib.sha256(f"{_SALT} {name}".encode()).digest()[0] % 2]


def by_worth(rules: Mapping[str, str]) -> tuple[str, ...]:
    """Order cases, given with their rules: one of each rule, then a second one of each, and so on.

    The cases of a rule come from its two halves in turn, and so do the rules: any beginning has about as many of both.
    """
    firsts: Counter[str] = Counter()
    by_rule = []
    for rule in dict.fromkeys(rules.values()):
        of_rule = [name for name in rules if rules[name] == rule]
        by_rule.append(_alternating(of_rule, firsts))
        firsts[half(by_rule[-1][0])] += 1
    order: list[str] = []
    for number in range(max(map(len, by_rule), default=0)):
        of_round = [names[number] for names in by_rule if number < len(names)]
        order += _alternating(of_round, Counter())
    return tuple(order)


def _alternating(names: Sequence[str], before: Mapping[str, int]) -> list[str]:
    """Order names by their halves in turn, first of the half that has had fewer before; what has no match is last."""
    first, second = sorted(HALVES, key=lambda of_half: before.get(of_half, 0))
    these, those = ([name for name in names if half(name) == of_half] for of_half in (first, second))
    return [name for pair in zip_longest(these, those) for name in pair if name is not None]
