"""A session without what tells whose machine it came from: folders, user names, hosts and secrets in command lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, TypeVar

from gpuprof.model.session import Session

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")

_IN_NAME = r"[^\s/\\:;,=()'\"]"
_PATH = re.compile(rf"(?<!{_IN_NAME})(?:[A-Za-z]:(?=[/\\]))?{_IN_NAME}*(?:[/\\]{_IN_NAME}*)+")
_HOME = re.compile(r"(?:[A-Za-z]:)?[/\\]+(?:root|(?:home|Users)[/\\]+[^/\\]+)[/\\]*", re.IGNORECASE)
_WINDOWS_HOME = re.compile(r"[A-Za-z]:[/\\]+Users[/\\]+([^/\\:*?\"<>|\r\n]{1,60})(?=[/\\])", re.IGNORECASE)
_ABSOLUTE = re.compile(r"(?:[A-Za-z]:)?(?:[/\\]+[^\s/\\:;,()'\"<>|*?=&{}\[\]`]+)+[/\\]*")
_OWNER = re.compile(r"[/\\](?:home|Users)[/\\]+([^\s/\\:;,()'\"<>|*?=&{}\[\]`]+)", re.IGNORECASE)
_CACHE = re.compile(r"(torchinductor_)\w+")
_LOGIN = re.compile(r"\b[\w.-]+@[\w.-]+\b")
_HOSTS = re.compile(
    r"(--?(?:H|host|hosts|hostname|nodelist|master[-_]addr|rdzv[-_]endpoint)[= ]|"
    r"\b(?:HOSTNAME|HOST|USER|USERNAME|LOGNAME|MASTER_ADDR|SLURM_\w+)=)[^\s-]\S*"
)
_SECRET = re.compile(r"([\w-]*(?:token|secret|passw(?:or)?d|credential|api[-_]?key)[\w-]*[= ])[^\s-]\S*", re.IGNORECASE)

_HOME_PARTS = frozenset({"home", "users"})
_ROOTS = frozenset({
    "root", "tmp", "var", "private", "scratch", "mnt", "media", "data", "datasets", "nfs", "gpfs", "lustre", "export",
    "net", "work", "workspace", "projects", "storage", "srv",
})  # fmt: skip
_NUMBER = re.compile(r"(?:float|int|bool|Dim3|None)(?: \| None)?")
_FILE_FIELDS = frozenset({"file"})
_COMMAND_FIELDS = frozenset({"command", "warnings"})
_COMMON_OWNERS = frozenset({"root", "user", "runner", "ubuntu", "shared", "public", "default", "data"})


def without_private(session: Session) -> Session:
    """Return the session with files, commands and warnings shortened, and private folders gone from every text."""
    owners = _owners(session)
    sources = tuple(_rewritten(source, owners) for source in session.sources)
    return replace(_rewritten(replace(session, sources=()), frozenset()), sources=sources)


def without_folders(text: str) -> str:
    """Shorten every path in a text to its last part; a home folder itself becomes `~`."""
    return _PATH.sub(_last_part, _WINDOWS_HOME.sub("~", text))


def file_name(path: str) -> str:
    """Drop the folders of a path of either kind of system."""
    name = PureWindowsPath(path).name if "\\" in path and "/" not in path else PurePosixPath(path).name
    return name or path


def without_home(text: str) -> str:
    """Shorten paths below a home, temporary or data folder to their last part; other slashes stay, as in `a/b`."""
    if "/" not in text and "\\" not in text:
        return text
    text = _ABSOLUTE.sub(_private_last_part, _WINDOWS_HOME.sub("~", text))
    return _CACHE.sub(r"\1user", text)


def _owners(session: Session) -> frozenset[str]:
    """Return the user names that home folders of the session give away, for sources to lose them elsewhere too."""
    texts = [text for source in session.sources for text in (source.file, source.command or "", *source.warnings)]
    found = {name for text in texts for pattern in (_OWNER, _WINDOWS_HOME) for name in pattern.findall(text)}
    return frozenset(name for name in found if len(name) > 1 and name.lower() not in _COMMON_OWNERS)


def _rewritten(item: Value, owners: frozenset[str]) -> Value:
    """Rewrite every text below a value; what needs no change stays the same object."""
    changed = _changed(item, owners, "")
    return item if changed is None else changed  # type: ignore[return-value]


def _changed(item: object, owners: frozenset[str], name: str) -> object | None:
    """Return the rewritten value of a field of that name, or None where it stays as it is."""
    if isinstance(item, str):
        text = _text(item, owners, name)
        return text if text != item else None
    if isinstance(item, tuple):
        changed = [_changed(part, owners, name) for part in item]
        if all(part is None for part in changed):
            return None
        return tuple(old if new is None else new for old, new in zip(item, changed, strict=True))
    if item is None or not is_dataclass(item) or isinstance(item, type):
        return None
    changes = {
        part: new
        for part in _fields_with_text(type(item))
        if (new := _changed(getattr(item, part), owners, part)) is not None
    }
    return replace(item, **changes) if changes else None


@cache
def _fields_with_text(kind: type[DataclassInstance]) -> tuple[str, ...]:
    """Return the fields that can hold a text, at any depth."""
    return tuple(field.name for field in fields(kind) if not _NUMBER.fullmatch(str(field.type)))


def _text(text: str, owners: Iterable[str], name: str) -> str:
    if name in _FILE_FIELDS:
        text = file_name(text)
    elif name in _COMMAND_FIELDS:
        text = _SECRET.sub(r"\1…", _HOSTS.sub(r"\1…", _LOGIN.sub("user@host", text)))
        text = without_folders(text)
    else:
        text = without_home(text)
    for owner in owners:
        text = re.sub(rf"(?<![^\W_]){re.escape(owner)}(?![^\W_])", "user", text)
    return text


def _last_part(match: re.Match[str]) -> str:
    parts = _parts(match[0])
    if _HOME.fullmatch(match[0]) or not parts:
        return "~" if parts else match[0]
    return parts[-1]


def _private_last_part(match: re.Match[str]) -> str:
    parts = _parts(match[0])
    before = match.string[match.start() - 1] if match.start() else " "
    absolute = not (before.isalnum() or before in "_)]")
    below_home = any(part.lower() in _HOME_PARTS for part in parts[:-1])
    if not below_home and not (absolute and len(parts) > 1 and _first_folder(parts).lower() in _ROOTS):
        return match[0]
    return _last_part(match)


def _first_folder(parts: list[str]) -> str:
    return parts[1] if parts[0].endswith(":") and len(parts) > 1 else parts[0]


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", path) if part]
