"""Refuses a source that includes files of others: a source could show whatever its user may read.

A name of a struct, a kernel or a failed assertion can be the text of a file, so that it is not enough to leave out what
a compiler says of that file. Directives are looked for without a preprocessor: in all branches, and too many of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuprof.errors import InputError

_SYSTEM_HEADERS = ("/usr/include", "/usr/local/include", "/usr/lib/gcc")
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t\v\f]*\n")
_DIRECTIVE = re.compile(
    r"(?:(?:^|\*/)[ \t\v\f]*(?:\#|%:|\?\?=)|\*/)[ \t\v\f]*(?:include(?:_next)?|import|embed)\b"
    r"[ \t\v\f]*(?:\"([^\"\n]*)\"|<([^>\n]*)>|([^\n]{0,80}))",
    re.MULTILINE,
)
"""A name in quotes or in angle brackets, or what is neither: a macro, or a comment before the name."""
_MOST_BYTES = 16 * 2**20


class OwnFiles(NamedTuple):
    """The folders of a source, its repository's among them, those that `-I` names, and those of compilers' headers."""

    own: tuple[str, ...]
    named: tuple[str, ...]
    headers: tuple[str, ...]

    @classmethod
    def of(cls, source: Path, named: Sequence[str], headers: Iterable[Path]) -> OwnFiles:
        """Return those of a source."""
        folder = source.absolute().parent
        repository = next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), folder)
        return cls(_real((folder, repository)), _real(named), _real((*_SYSTEM_HEADERS, *headers)))

    def has(self, file: str) -> bool:
        """Tell whether a file is the source's, wherever a link to it lies."""
        return self._is_in(file, (*self.own, *self.named, *self.headers))

    def is_read(self, file: str) -> bool:
        """Tell whether the directives of a file have to be looked at; compilers' own headers include their like."""
        return not self._is_in(file, self.headers)

    def may_compute(self, file: str) -> bool:
        """Tell whether a file may include what a macro names: those of libraries that the user has named."""
        return not self._is_in(file, self.own)

    @staticmethod
    def _is_in(file: str, folders: Sequence[str]) -> bool:
        path = os.path.realpath(file)
        return any(path.startswith(f"{folder.rstrip(os.sep)}{os.sep}") for folder in folders)


def _real(folders: Iterable[str | Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders))


def refuse_foreign(source: Path, name: str, text: str, files: OwnFiles) -> None:
    """Raise InputError where a source, or a file that it includes, includes one that is not the source's."""
    waiting, seen = [(os.path.abspath(source), name, text)], set()  # noqa: PTH100
    while waiting:
        path, told, said = waiting.pop()
        for asked, file in _included(path, said, files):
            if file is None:
                if not files.may_compute(path):
                    raise InputError(f"{told} includes what a macro or a comment names: {asked:.80}", _WRITE)
                continue
            if not files.has(file):
                raise InputError(
                    f"{told} includes {asked:.200}, which is neither in the source's folder or repository nor in a "
                    "folder of -I",
                    f"if it is to be read: -I {os.path.dirname(os.path.realpath(file))}",  # noqa: PTH120
                )
            real = os.path.realpath(file)
            if real not in seen and files.is_read(real):
                seen.add(real)
                waiting.append((file, asked, _text(real)))


_WRITE = "write the name of the file there, or compile it as your build does and check the .cubin"


def _included(path: str, text: str, files: OwnFiles) -> Iterator[tuple[str, str | None]]:
    """Yield what a text includes, as it is written, and the files that there are; None for what only macros know."""
    joined = _SPLICE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    for quoted, bracketed, other in _DIRECTIVE.findall(joined):
        if other:
            yield other.strip(), None
            continue
        beside = [os.path.dirname(path)]  # noqa: PTH120
        for folder in (*beside, *files.named):
            file = os.path.join(folder, quoted or bracketed)  # noqa: PTH118
            if os.path.lexists(file) and not os.path.isdir(file):  # noqa: PTH112
                yield quoted or bracketed, file


def _text(path: str) -> str:
    """Return the text of a header; nothing of what is no file that can be read, which the compiler will say."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113
            return ""
        with open(path, encoding="utf-8", errors="replace") as opened:  # noqa: PTH123
            return opened.read(_MOST_BYTES)
    except OSError:
        return ""
