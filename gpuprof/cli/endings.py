"""How the name after -o may end: a picture or document that is not written is refused, and is no folder's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpuprof.errors import UsageError

_OF_FILES = re.compile(
    r"\.(avif|bmp|csv|docx?|emf|eps|gif|gz|html?|jpe?g|jsonl?|log|md|ncu-repz?|nsys-rep|odt|pdf|png|pptx?|ps|qdrep|"
    r"sqlite|svg|tex|tiff?|tsv|txt|webp|wmf|xlsx?|xml|ya?ml|zip)"
)
"""Endings that nobody gives to a folder."""


def refuse_ending(output: Path, written: Sequence[str], what: str, hint: str) -> None:
    """Raise UsageError if a name ends as a file of another kind than those written; a folder may have any name."""
    ending = output.suffix.lower()
    if _OF_FILES.fullmatch(ending) and ending not in written and not output.is_dir():
        raise UsageError(f"-o {output}: {what}", hint)
