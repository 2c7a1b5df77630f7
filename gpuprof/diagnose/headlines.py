"""One headline for findings of several kernels: what all of them say, and numbers as the range that they span."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.\u202f]\d+)*(?!\w)")
_BEFORE_A_PART = re.compile(r"(?=: |; )")


def common_headline(headlines: Sequence[str]) -> str:
    """Return what headlines have in common, part by part: "Latency-bound: no unit is more than 2 to 52 % busy".

    From the first part on in which more differs than numbers, nothing is common.
    """
    said = ""
    for parts in zip_longest(*map(_BEFORE_A_PART.split, dict.fromkeys(headlines)), fillvalue=""):
        if len({_NUMBER.sub("0", part) for part in parts}) > 1:
            break
        columns = zip(*map(_NUMBER.findall, parts), strict=True)
        said += _NUMBER.sub("{}", parts[0].replace("{", "{{").replace("}", "}}")).format(*map(_range, columns))
    return said or headlines[0]


def _range(numbers: Sequence[str]) -> str:
    low, high = min(numbers, key=_value), max(numbers, key=_value)
    return low if low == high else f"{low} to {high}"


def _value(number: str) -> float:
    return float(number.replace("\u202f", ""))
