"""Remove private data from sessions and reviews before anything is shown or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter, is_
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import Struct, structs

from gpuprof.model.analyse import Analysis
from gpuprof.model.labels import launch_labels
from gpuprof.model.session import KernelProfile, LineWork, Session, Source
from gpuprof.model.sources import STANDARD_INPUT
from gpuprof.privacy.commands import reduced_command
from gpuprof.privacy.source_files import PathMap, SourceFiles
from gpuprof.privacy.texts import KnownPaths, clean_code, clean_text, last_part

Cleaned = TypeVar("Cleaned", bound=Struct)
TextKind = Literal["command", "report", "file", "text", "code"]
KINDS: Mapping[str, TextKind] = {
    "command": "command",
    **dict.fromkeys(("file", "files", "origin"), "file"),
    **dict.fromkeys(("sass", "text"), "code"),
    **dict.fromkeys(
        (
            "action", "advice", "demangled", "function", "headline", "how", "label", "mangled", "meaning", "name",
            "notes", "operator", "patterns", "ranges", "reason", "sentence", "source", "specified_by", "symbol",
            "texts", "tools", "unknown", "unreviewed", "warnings", "why",
        ),
        "text",
    ),
}  # fmt: skip
"""The kind of text in each field that can hold private data. Other texts are words of gpuprof, ncu and NVIDIA."""
_OF_PATHS: frozenset[TextKind] = frozenset(("command", "report", "file"))


def without_private(record: Cleaned, path_maps: Sequence[PathMap] = ()) -> Cleaned:
    """Return a session, review or listing without private data at any depth; unchanged parts stay the same objects.

    Commands are reduced to known options, reports are named without folders, and source files by their path in their
    repository. Other texts lose tokens, logins, private folders and user names that paths reveal.
    """
    telling = set(_telling(record))
    cleaner = _Cleaner(KnownPaths.by(telling), SourceFiles(path_maps))
    named = cast("Cleaned", _with_short_names(record)) if isinstance(record, Session) else record
    return cleaner.record(named)


def with_clean_labels(analysis: Analysis) -> Analysis:
    """Return an analysis whose labels, and what is said by them, are made of names and ranges without what is private.

    A label is cut: what it would keep of a token, or of a login, could not be recognised any more.
    """
    kernels = analysis.session.kernels
    names = [clean_text(kernel.demangled) for kernel in kernels]
    ranges = [tuple(map(clean_text, kernel.ranges)) for kernel in kernels]
    if all(map(_stays, kernels, names, ranges)):
        return analysis
    labelled = []
    for kernel, (label, function) in zip(kernels, launch_labels(names, ranges), strict=True):
        labelled.append(structs.replace(kernel, label=label, function=function))
    return structs.replace(analysis, session=structs.replace(analysis.session, kernels=tuple(labelled)))


def _stays(kernel: KernelProfile, name: str, ranges: tuple[str, ...]) -> bool:
    return kernel.demangled == name and kernel.ranges == ranges


def report_name(file: str) -> str:
    """Return the name of a report without its folders."""
    return file if file == STANDARD_INPUT else clean_text(last_part(file))


def _telling(record: Struct) -> Iterator[str]:
    """Yield the texts whose paths reveal the names of users and folders."""
    texts, records = _fields(type(record))
    for name, kind in texts:
        if kind in _OF_PATHS or name == "warnings":
            value = getattr(record, name)
            yield from (value,) if isinstance(value, str) else value or ()
    for name in records:
        # A verdict's command is built from the commands of the sources and names of kernels.
        if name != "verdict" and _leads_to_paths(type(record), name):
            value = getattr(record, name)
            parts = value if isinstance(value, tuple) else () if value is None else (value,)
            if parts and isinstance(parts[0], LineWork):
                yield from set(map(attrgetter("file"), parts))
            else:
                for part in parts:
                    yield from _telling(part)


def _with_short_names(session: Session) -> Session:
    """Return the session with reports named without their folders in its warnings and its verdict."""
    names = {source.file: report_name(source.file) for source in session.sources}
    in_folders = sorted((file for file, name in names.items() if file != name), key=len, reverse=True)
    if not in_folders:
        return session

    def short(text: str) -> str:
        for file in in_folders:
            text = text.replace(file, names[file])
        return text

    sources = (structs.replace(source, warnings=tuple(map(short, source.warnings))) for source in session.sources)
    verdict = session.verdict
    if verdict is not None:
        unknown = short(verdict.unknown) if verdict.unknown is not None else None
        notes = tuple(map(short, verdict.notes))
        verdict = structs.replace(verdict, sentence=short(verdict.sentence), notes=notes, unknown=unknown)
    return structs.replace(session, sources=tuple(sources), verdict=verdict)


class _Cleaner:
    """Rewrites records. Each distinct text is examined once."""

    def __init__(self, known: KnownPaths, files: SourceFiles) -> None:
        self._clean: Mapping[TextKind, Callable[[str], str]] = {
            "command": lambda text: reduced_command(text, known),
            "report": lambda file: clean_text(report_name(file), known),
            "file": files.kept,
            "text": lambda text: clean_text(text, known),
            "code": lambda text: clean_code(text, known),
        }
        self._plain: Mapping[TextKind, set[str | None]] = {kind: {None} for kind in self._clean}
        self._changes: Mapping[TextKind, dict[str, str]] = {kind: {} for kind in self._clean}

    def record(self, record: Cleaned) -> Cleaned:
        """Return the record with every text in it cleaned."""
        changes: dict[str, object] = {}
        texts, records = _fields(type(record))
        for name, kind in texts:
            value = getattr(record, name)
            if isinstance(value, str):
                if (text := self._changed(value, kind)) is not None:
                    changes[name] = text
            elif value and any(self._changed(text, kind) is not None for text in value):
                changes[name] = tuple(self._text(text, kind) for text in value)
        for name in records:
            value = getattr(record, name)
            changed = self._below(value) if value is not None else None
            if changed is not value:
                changes[name] = changed
        return structs.replace(record, **changes) if changes else record

    def _below(self, value: Any) -> Any:
        """Clean a record, a list of records, or numbered lines by file."""
        if isinstance(value, Struct):
            return self.record(value)
        if isinstance(value, Mapping):
            return {
                self._text(file, "file"): {number: self._text(text, "code") for number, text in lines.items()}
                for file, lines in value.items()
            }
        if not value or self._are_plain(value):
            return value
        changed = [self.record(part) for part in value]
        return value if all(map(is_, changed, value)) else tuple(changed)

    def _are_plain(self, records: Sequence[Struct]) -> bool:
        """Return whether all texts of records without nested records are known to need no change: a fast path."""
        texts, below = _fields(type(records[0]))
        return not below and all(self._plain[kind].issuperset(map(attrgetter(name), records)) for name, kind in texts)

    def _text(self, text: str, kind: TextKind) -> str:
        changed = self._changed(text, kind)
        return text if changed is None else changed

    def _changed(self, text: str, kind: TextKind) -> str | None:
        """Return the cleaned text; None if it needs no change."""
        if text in self._plain[kind]:
            return None
        changes = self._changes[kind]
        if text not in changes:
            clean = self._clean[kind](text)
            if clean == text:
                self._plain[kind].add(text)
                return None
            changes[text] = clean
        return changes[text]


@cache
def _fields(record: type[Struct]) -> tuple[tuple[tuple[str, TextKind], ...], tuple[str, ...]]:
    """Return the fields that can hold private data: texts with their kinds, and nested records."""
    texts: list[tuple[str, TextKind]] = []
    records = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        if name in KINDS and is_text(hint):
            texts.append((name, "report" if record is Source and name == "file" else KINDS[name]))
        elif name == "source_lines" or any(any(_fields(part)) for part in records_in(hint)):
            records.append(name)
    return tuple(texts), tuple(records)


@cache
def _leads_to_paths(record: type[Struct], name: str) -> bool:
    """Return whether the records in a field hold paths or commands at any depth."""
    return any(
        any(kind in _OF_PATHS for _, kind in _fields(part)[0])
        or any(_leads_to_paths(part, below) for below in _fields(part)[1])
        for part in records_in(get_type_hints(record, include_extras=True)[name])
    )


def is_text(hint: Any) -> bool:
    """Return whether a type holds free text rather than one of a fixed set of words."""
    if hint is str:
        return True
    if get_origin(hint) is Literal:
        return False
    arguments = get_args(hint)
    if arguments and any(getattr(about, "pattern", None) for about in arguments[1:]):
        return False
    return any(map(is_text, arguments))


def records_in(hint: Any) -> Iterator[type[Struct]]:
    """Yield the record types that a value of this type can hold."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if issubclass(hint, Struct):
            yield hint
    elif get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from records_in(part)
