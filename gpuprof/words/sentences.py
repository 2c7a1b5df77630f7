"""How sentences begin and end."""

from __future__ import annotations


def full_stop(text: str) -> str:
    """Return a text that ends with one full stop; an empty one stays so."""
    ended = text.rstrip(". ")
    return f"{ended}." if ended else ""


def capital(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def inside(text: str) -> str:
    """Return the start of a sentence as written inside of one: "pad the array", but "FP64 work"."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def without_stop(text: str) -> str:
    """Return a sentence without its full stop, to be continued."""
    return text.rstrip(".")


def change_texts(action: str, advice: str) -> tuple[str, ...]:
    """Return what to change and how, as two sentences; only how if that begins with what to change."""
    if not action or advice.startswith(without_stop(action)):
        return (advice,) if advice else ()
    return tuple(text for text in (full_stop(action), advice) if text)
