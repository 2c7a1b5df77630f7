"""The small values of the page of a review: sentences without private folders, names of places and of variants."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.present.check_blocks import Block, BlockVariant
from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views.document import anchor
from gpuprof.words.profile_values import count_text

LONGEST_SENTENCE = 1500
_PLACE_LENGTH, _SASS_LENGTH, _VARIANT_LENGTH = 80, 160, 80
_LISTED = 3


def sentence(text: str) -> str:
    """Return a text of the review as it is shown."""
    return cut_end(printable(text[: 8 * LONGEST_SENTENCE]), LONGEST_SENTENCE)


def place(text: str) -> str:
    """Return the name of a file with its line, cut where it is too long for a table."""
    return cut_middle(printable(text), _PLACE_LENGTH)


def sass(text: str) -> str:
    """Return an instruction as it is shown."""
    return cut_middle(printable(text[: 8 * _SASS_LENGTH]), _SASS_LENGTH)


def card_id(block: Block, number: int) -> str:
    """Return the id of the card of a kernel's finding."""
    return anchor("finding", block.kernel.id, number)


def names_text(names: Sequence[str]) -> str:
    """Name variants: all of a few, else the first ones and how many more."""
    shown = ", ".join(cut_middle(printable(name), _VARIANT_LENGTH) for name in names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


def variants_text(variants: Sequence[BlockVariant]) -> str:
    """Name variants with how many launches of a report they have."""
    launches = sum(variant.launches for variant in variants)
    in_launches = f", {count_text(launches, 'launch', 'es')}" if launches else ""
    return f"{names_text([variant.name for variant in variants])}{in_launches}"
