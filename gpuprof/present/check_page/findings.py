"""Findings of a kernel on the page: a card for each, with why, what to do, evidence, and the instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpuprof.model.session import Location
from gpuprof.present.check_blocks import Block, BlockFinding
from gpuprof.present.check_page.fixes import loops_text
from gpuprof.present.check_page.room import Room
from gpuprof.present.check_page.texts import card_id, names_text, place, sass, sentence
from gpuprof.present.check_text import is_number, place_text, where_text
from gpuprof.present.page.findings import EvidenceRow, evidence_row, rule_name
from gpuprof.text import printable
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import change_texts, full_stop

_PREDICATE = re.compile(r"^@!?\w+\s+")


class PlaceRow(Struct, frozen=True, kw_only=True):
    """Instructions at a line: the first of them, and how many are like it."""

    place: str
    offset: str
    sass: str
    times: str


class CodeCard(Struct, frozen=True, kw_only=True):
    """Everything about one finding. `advice_href` leads to the card that has its advice, where it is not here."""

    id: str
    rule: str
    is_guess: bool
    loops: str
    only: str
    headline: str
    where: str
    why: str
    action: str
    advice: str
    advice_href: str
    evidence: tuple[EvidenceRow, ...]
    places: tuple[PlaceRow, ...]
    more_places: str
    has_lines: bool


def code_cards(block: Block, room: Room, advised: dict[str, str]) -> Iterator[CodeCard]:
    """Yield a card for each finding of a kernel. `advised` has the card of each advice that the page has so far."""
    for number, told in enumerate(block.findings):
        card = card_id(block, number)
        first = card if room.repeats else advised.setdefault(told.finding.advice, card)
        yield _card(card, told, room, first if first != card else "")


def _card(card: str, told: BlockFinding, room: Room, advised: str) -> CodeCard:
    finding = told.finding
    *action, advice = change_texts(finding.action, finding.advice) or ("",)
    if advised:
        action = [full_stop(finding.action)]
    rows = list(_places(finding.places))
    shown = rows[: room.places]
    more = finding.more_places + sum(number for _, number in rows[room.places :])
    return CodeCard(
        id=card,
        rule=printable(rule_name(finding.rule)),
        is_guess=finding.confidence == "guess",
        loops=loops_text(finding.loops),
        only=names_text(told.only),
        headline=sentence(finding.headline),
        where=place(where_text(finding)),
        why=sentence(finding.why),
        action=sentence(action[0]) if action and finding.action else "",
        advice=sentence(advice) if not advised else "",
        advice_href=f"#{advised}" if advised else "",
        evidence=tuple(evidence_row(item) for item in finding.evidence if is_number(item.value)),
        places=tuple(_place_row(first, number) for first, number in shown),
        has_lines=any(first.file is not None for first, _ in shown),
        more_places=f"And {count_text(more, 'more place')}." if more else "",
    )


def _places(places: Sequence[Location]) -> Iterator[tuple[Location, int]]:
    """Yield places in their order, those of one line and opcode once with how many there are."""
    groups: dict[tuple[object, ...], list[Location]] = {}
    for item in places:
        opcode = _PREDICATE.sub("", item.sass or "").partition(" ")[0]
        groups.setdefault((item.file, item.line, opcode) if item.line is not None else (item.pc,), []).append(item)
    for group in groups.values():
        yield group[0], len(group)


def _place_row(item: Location, number: int) -> PlaceRow:
    return PlaceRow(
        place=place(place_text(item)) if item.file is not None else "",
        offset=f"0x{item.pc:x}" if item.pc is not None else "",
        sass=sass(item.sass or ""),
        times=f"×{number}" if number > 1 else "",
    )
