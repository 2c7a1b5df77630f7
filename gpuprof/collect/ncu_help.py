"""Which options an `ncu` knows, and how it spells their values, read from what it prints for --help."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_OPTION = re.compile(
    r"^ {1,4}(?:-\w \[ )?--(?P<name>[a-z][\w-]*)(?: \])?(?P<text>.*(?:\n(?! {1,4}-).*)*)", re.MULTILINE
)
_PATIENCE_S = 20.0
_SWITCHES = (("on", "off"), ("yes", "no"), ("1", "0"))


class KnownOptions(NamedTuple):
    """The options of a release, each with its text; empty if it did not tell, and then all are taken for known."""

    texts: dict[str, str]

    def has(self, option: str) -> bool:
        """Tell whether --option is known."""
        return not self.texts or option in self.texts

    def names_value(self, option: str, value: str) -> bool:
        """Tell whether the text of an option names a value; False where it is not known."""
        return re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", self.texts.get(option, "")) is not None

    def switch(self, option: str) -> tuple[str, str] | None:
        """Return how an option is switched on, and off; None where it is not known."""
        if option not in self.texts:
            return None
        return next((values for values in _SWITCHES if self.names_value(option, values[1])), _SWITCHES[0])

    def without_unknown(self, options: Sequence[tuple[str, ...]]) -> list[str]:
        """Return the words of options, each a name and its values, without those that are not known."""
        return [argument for option in options if self.has(option[0].removeprefix("--")) for argument in option]


UNKNOWN = KnownOptions({})


def options_in(help_text: str) -> KnownOptions:
    """Read a text of --help."""
    return KnownOptions({match["name"]: match["text"] for match in _OPTION.finditer(help_text)})


@lru_cache
def options_of(ncu: Path) -> KnownOptions:
    """Ask a program for its --help; UNKNOWN if it is not there or does not answer in twenty seconds."""
    try:
        completed = subprocess.run(
            [ncu, "--help"], capture_output=True, timeout=_PATIENCE_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    options = options_in(completed.stdout.decode(errors="replace"))
    return options if options.has("metrics") and options.has("export") else UNKNOWN
