"""Accesses that were told and counted: how each compares, the tables of that, and whether the aims are reached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpuprof.review.contract import CodeAccess

Outcome = Literal["right", "lanes off", "counted 0", "wrong", "argument", "loaded", "unknown"]
_WARP = 32
_TOLERANCE = 0.01
_RIGHT, _KNOWN = 0.99, 0.75
_WORST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One access of one launch: what the code says of a request, what was counted, and how often it ran.

    `lanes`: how many ran it on average.
    """

    where: str
    access: CodeAccess
    static: float | None
    counted: float
    executed: float
    lanes: float
    tags: float

    @property
    def per_request(self) -> float:
        """Return what was counted for a request."""
        return self.counted / self.executed

    @property
    def outcome(self) -> Outcome:
        """Judge it.

        `lanes off`: lanes that a predicate or a branch switches off touch nothing; what is counted lies between what
        the code says of all lanes and that times the share of lanes that ran. `counted 0`: ncu counts nothing for some
        LDGSTS although their tag requests are there, so that they cannot be compared.
        """
        if self.static is None:
            return _cause(self.access.unknown)
        if abs(self.static - self.per_request) <= _TOLERANCE * self.per_request:
            return "right"
        if self.counted == 0 and self.tags > 0:
            return "counted 0"
        share = self.lanes / _WARP
        least, most = self.static * share * (1 - _TOLERANCE), self.static * (1 + _TOLERANCE)
        return "lanes off" if share < 1 and least <= self.per_request <= most else "wrong"


def _cause(unknown: str) -> Outcome:
    """Return what makes an access unknown, by the words of the review."""
    if "argument" in unknown:
        return "argument"
    return "loaded" if "loaded" in unknown or "memory" in unknown else "unknown"


@dataclass(slots=True)
class Row:
    """Accesses and their traffic, by outcome."""

    number: defaultdict[Outcome, int] = field(default_factory=lambda: defaultdict(int))
    traffic: defaultdict[Outcome, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, item: Compared) -> None:
        """Count an access."""
        self.number[item.outcome] += 1
        self.traffic[item.outcome] += item.counted

    def share(self, part: Sequence[Outcome], whole: Sequence[Outcome]) -> float | None:
        """Return the share that some outcomes have in the traffic of others; None where there is none."""
        total = sum(self.traffic[outcome] for outcome in whole)
        return sum(self.traffic[outcome] for outcome in part) / total if total else None


_AGREE: tuple[Outcome, ...] = ("right", "lanes off")
_OF_KNOWN: tuple[Outcome, ...] = ("right", "lanes off", "counted 0", "wrong")
_BY_CODE: tuple[Outcome, ...] = (*_OF_KNOWN, "unknown")
_ALL: tuple[Outcome, ...] = (*_BY_CODE, "argument", "loaded")


def table_lines(rows: Mapping[tuple[str, str], Row], launches: Mapping[str, int]) -> Iterator[str]:
    """Yield a table of accesses by device and memory; `launches` counts those of each device."""
    yield (
        "| GPU (launches) | memory | accesses | known | known, of traffic | decided by arguments | by loaded values "
        "| known, of the rest | right, of the known | of its traffic | of it with lanes off | ncu counts 0 | wrong |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    order = {**{device: place for place, device in enumerate(launches)}, "all": len(launches)}
    for (device, space), row in sorted(rows.items(), key=lambda entry: (order[entry[0][0]], entry[0][1])):
        total = launches[device] if device != "all" else sum(launches.values())
        number = row.number
        known = sum(number[outcome] for outcome in _OF_KNOWN)
        comparable = known - number["counted 0"]
        agree = sum(number[outcome] for outcome in _AGREE)
        cells = (
            f"{device} ({total})",
            space,
            sum(number.values()),
            known,
            _percent(row.share(_OF_KNOWN, _ALL)),
            _percent(row.share(("argument",), _ALL)),
            _percent(row.share(("loaded",), _ALL)),
            _percent(row.share(_OF_KNOWN, _BY_CODE)),
            f"{agree} of {comparable}",
            _percent(row.share(_AGREE, _OF_KNOWN)),
            number["lanes off"],
            number["counted 0"],
            number["wrong"],
        )
        yield f"| {' | '.join(map(str, cells))} |"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.4g} %"


def aim_lines(rows: Mapping[tuple[str, str], Row]) -> Iterator[str]:
    """Yield for each memory what is known and right, over all devices."""
    for (device, space), row in sorted(rows.items()):
        if device == "all":
            yield (
                f"{space}: known {_percent(row.share(_OF_KNOWN, _ALL))} of all traffic, and "
                f"{_percent(row.share(_OF_KNOWN, _BY_CODE))} of what neither arguments nor loaded values decide "
                f"(aim {_percent(_KNOWN)}); right {_percent(row.share(_AGREE, _OF_KNOWN))} of the known "
                f"(aim {_percent(_RIGHT)})"
            )


def worst_lines(worst: Sequence[Compared]) -> Iterator[str]:
    """Yield the accesses that differ most."""
    ranked = sorted(worst, key=lambda item: -abs((item.static or 0.0) - item.per_request) * item.executed)
    yield f"{len(worst)} accesses differ without a rule that says why" + (":" if worst else "")
    for item in ranked[:_WORST]:
        yield (
            f"  {item.where} +{item.access.offset:#x} {item.access.opcode}: {item.static:g} by the code, "
            f"{item.per_request:.4g} counted, {item.lanes:.3g} lanes"
        )


def reached(rows: Mapping[tuple[str, str], Row]) -> bool:
    """Tell whether the aims are reached for every memory."""
    overall = [row for (device, _), row in rows.items() if device == "all"]
    right = [row.share(_AGREE, _OF_KNOWN) for row in overall]
    known = [row.share(_OF_KNOWN, _BY_CODE) for row in overall]
    return all(share is None or share >= _RIGHT for share in right) and all(
        share is None or share >= _KNOWN for share in known
    )
