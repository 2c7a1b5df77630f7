"""How sentences begin, end and are put together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def joined_by(separator: str, *texts: str) -> str:
    """Join the texts that are not empty."""
    return separator.join(filter(None, texts))


def short_list(texts: Sequence[str], most: int) -> str:
    """List the first texts, and count the others: "a, b and 3 more"."""
    listed = ", ".join(texts[:most])
    return listed if len(texts) <= most else f"{listed} and {len(texts) - most} more"


def full_stop(text: str) -> str:
    """Return a text that ends with one full stop, an ellipsis or a question mark; an empty one stays so."""
    ended = text.rstrip(". ")
    return ended if not ended or ended.endswith(("…", "?")) else f"{ended}."


def capital(text: str) -> str:
    """Return a text with a capital letter, unless it begins with a file, an opcode or another name."""
    word = text.partition(" ")[0]
    if not re.sub(r"[-:,;]", "", word).isalpha():
        return text
    return text[:1].upper() + text[1:]


def sentences(texts: Iterable[str]) -> str:
    """Join texts as sentences; one that begins in lower case follows a semicolon."""
    whole = ""
    for text in filter(None, texts):
        if whole and text[0].islower():
            whole = f"{without_stop(whole)}; {text}"
        else:
            whole = joined_by(" ", full_stop(whole), text)
    return full_stop(whole)


def inside(text: str) -> str:
    """Return the start of a sentence as written inside of one: "pad the array", but "FP64 work"."""
    if not text[1:2].islower():
        return text
    return text[:1].lower() + text[1:]


def without_stop(text: str) -> str:
    """Return a sentence without its full stop, to be continued."""
    return text.rstrip(".")


def change_texts(action: str, advice: str) -> tuple[str, ...]:
    """Return action and advice as two sentences; the advice alone if it begins with the action."""
    if advice.startswith(without_stop(action)):
        action = ""
    return tuple(filter(None, (full_stop(action), advice)))
