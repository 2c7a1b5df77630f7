"""A session without what tells whose machine it came from: folders, user names, hosts and secrets in command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeVar

from msgspec import Struct, structs

from gpuprof.model.session import RunVerdict, Session
from gpuprof.present.file_names import file_name
from gpuprof.present.private_fields import COMMAND_FIELDS, FILE_FIELDS, OWNED, fields_to_search, is_plain

Redacted = TypeVar("Redacted")

_IN_NAME = r"[^\s/\\:;,=()'\"]"
_PATH = re.compile(rf"(?<!{_IN_NAME})(?:[A-Za-z]:(?=[/\\]))?{_IN_NAME}*(?:[/\\]{_IN_NAME}*)+")
_HOME = re.compile(r"(?:[A-Za-z]:)?[/\\]+(?:root|(?:home|Users)[/\\]+[^/\\]+)[/\\]*", re.IGNORECASE)
_WINDOWS_HOME = re.compile(r"[A-Za-z]:[/\\]+Users[/\\]+([^/\\:*?\"<>|\r\n]{1,60})(?=[/\\])", re.IGNORECASE)
_PART = r"[^\s/\\:;,()'\"<>|*?=&{}\[\]`]+"
_IN_TEXT = re.compile(rf"(?:(?<!\w)[A-Za-z]:|~)?(?:[/\\]+{_PART})+[/\\]*")
_RELATIVE = re.compile(r"[\w)\].*]")
"""What stands before a slash that divides, ends a comment, or goes on with a path: `a/b`, `x[i]/y`, `1./dx`, `../c`."""
_AFTER_SLASHES = re.compile("//[^/]")
_SHARE = re.compile(r"\\\\[^\\]+\\[^\\]+\\[^\\]")
"""A folder that another machine shares: `\\\\host\\share\\file`."""
_OWNER = re.compile(rf"[/\\](?:home|Users)[/\\]+({_PART})", re.IGNORECASE)
_CACHE = re.compile(r"(torchinductor_)(\w+)")
_LOGIN = re.compile(r"(?:\b[\w.%+-]{1,80}:[^\s/@'\"]{0,200}|\b[\w.-]{1,80})@[\w.-]+\b")
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"-]\S*)"
_KEY = r"(?<![\w.-])[\w.-]{0,80}key"
_GUARDED = r"(?<![\w.-])[\w.-]{0,80}(?:token|secret|passw(?:or)?d|passphrase|credential|api[-_]?key)[\w.-]{0,80}"
_MASKED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"((?<=['\"])(?:{_GUARDED}|{_KEY})=)[^'\"]+",  # '--token=two words'
        rf"((?:{_GUARDED}|{_KEY})=)(?!…)(?:'[^']*'|\"[^\"]*\"|[^\s'\"]\S*)",
        rf"((?:{_GUARDED}|(?=-){_KEY})\s+){_VALUE}",
        rf"(\blogin\s+(?:-\S+\s+){{0,9}}){_VALUE}",
        rf"((?:(?-i:-H)|--?(?:host|hosts|hostname|nodelist|master[-_]addr|rdzv[-_]endpoint))[= ]){_VALUE}",
        rf"(\b(?:srun|sbatch|salloc)(?:\s+-\S+(?:\s+[^\s-]\S*)?){{0,20}}?\s+-w[= ]?){_VALUE}",
        rf"(\b(?:HOSTNAME|HOST|USER|USERNAME|LOGNAME|MASTER_ADDR|SLURM_\w+)=){_VALUE}",
    )
)
"""What a command line says of hosts and secrets: the first group stays."""
_SECRET = re.compile(rf"(?:{_GUARDED}|{_KEY})=(?=.)", re.IGNORECASE | re.DOTALL)
_PARTS_WORDS = re.compile(r"[\s'\"]+")
_BESIDE = re.compile(r"\.[/\\][^/\\]*")
_NAMING = frozenset({"--kernel-name", "--kernel-regex", "--kernel-id", "--nvtx-include", "--nvtx-exclude"})
"""Options of ncu whose values are patterns and names: a slash or backslash there parts no folders."""
_LOOKED_BACK = 42
"""How many arguments before a host or a secret can tell that it is one."""

_HOME_PARTS = frozenset({"home", "users"})
_SHORTEST_OWNER = 3
_DATA_ROOTS = frozenset({
    "root", "tmp", "var", "private", "scratch", "mnt", "media", "data", "datasets", "nfs", "gpfs", "lustre", "export",
    "net", "work", "workspace", "projects", "storage", "srv",
})  # fmt: skip
"""Where systems and clusters keep what belongs to users. A text alone does not tell `/data/x` from `/encoder/x`."""
_ORDINARY = frozenset({
    "app", "bool", "build", "char", "cub", "cuda", "cutlass", "data", "default", "dev", "double", "float", "gemm",
    "gpu", "half", "host", "int", "kernel", "local", "long", "main", "mark", "matrix", "max", "model", "node", "nvidia",
    "public", "python", "ray", "reduce", "sgemm", "shared", "short", "sum", "tensor", "test", "thrust", "torch",
    "train", "triton", "user", "void", "volta", "warp", "will", "work",
})  # fmt: skip
"""Names of folders below `home` that are words of kernels and their libraries. Nothing in a session tells that `data`
is no person; without this list `triton_poi_0` of a container with such a folder would be shown as `user_poi_0`."""


def without_private(session: Session) -> Session:
    """Return the session with files, commands and warnings shortened, and private folders gone from every text."""
    texts = {text for source in session.sources for text in (source.file, source.command or "", *source.warnings)}
    for kernel in session.kernels:
        texts.update(excerpt.file or "" for excerpt in kernel.excerpts)
        texts.update(line.file for line in kernel.lines)
        texts.update(finding.location.file or "" for finding in kernel.findings if finding.location is not None)
    return _rewritten(_with_short_notes(session), _Known(_owner_pattern(texts), _roots(texts)))


def with_file_names(session: Session) -> Session:
    """Return the session with the names of its files alone, without their folders, and a command without secrets."""
    session = _with_short_notes(session)
    verdict = session.verdict
    if verdict is not None and verdict.command is not None:
        verdict = structs.replace(verdict, command=_copyable(verdict.command, None))
    return structs.replace(
        session,
        verdict=verdict,
        sources=tuple(structs.replace(source, file=file_name(source.file)) for source in session.sources),
    )


def _with_short_notes(session: Session) -> Session:
    """Return the session with its files named without their folders in what is said of all of it."""
    verdict = session.verdict
    if verdict is None or not verdict.notes:
        return session
    files = sorted({source.file for source in session.sources}, key=len, reverse=True)
    notes = verdict.notes
    for file in files:
        notes = tuple(note.replace(file, file_name(file)) for note in notes)
    return (
        structs.replace(session, verdict=structs.replace(verdict, notes=notes)) if notes != verdict.notes else session
    )


def without_folders(text: str) -> str:
    """Shorten every path in a text to its last part; a home folder itself becomes `~`, and `./app` stays."""
    return _PATH.sub(_last_part, _WINDOWS_HOME.sub("~", text))


def without_private_folders(text: str, roots: Collection[str] = ()) -> str:
    """Shorten paths below a home folder, below usual folders for data and below `roots` to their last part.

    Other slashes stay, as in `a/b`, and so do paths of what is installed and what is only named like a path, as layers
    of a network are: `/encoder/layer.0/MatMul`.
    """
    if "/" not in text and "\\" not in text:
        return text
    text = _IN_TEXT.sub(lambda match: _shortened(match, roots), _WINDOWS_HOME.sub("~", text))
    return _CACHE.sub(r"\1user", text)


def _roots(texts: Iterable[str]) -> frozenset[str]:
    """Return the first folders of the absolute paths in texts."""
    paths = (match[0] for text in texts for match in _IN_TEXT.finditer(text) if match[0].startswith("/"))
    return frozenset(parts[0] for parts in map(_parts, paths) if len(parts) > 1)


def _owner_pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return what matches the user names that folders in texts give away; None where there is none.

    Names of fewer than three characters and ordinary words of code are left alone.
    """
    texts = list(texts)
    names = {name for text in texts for pattern in (_OWNER, _WINDOWS_HOME) for name in pattern.findall(text)}
    names |= {name for text in texts for _, name in _CACHE.findall(text)}
    owners = [
        re.escape(name)
        for name in sorted(names, key=len, reverse=True)
        if len(name) >= _SHORTEST_OWNER and name.lower() not in _ORDINARY
    ]
    if not owners:
        return None
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(owners)})(?![^\W_])", re.IGNORECASE)


class _Known(NamedTuple):
    """What the paths of a session give away: its owners, and the first folders of its files."""

    owners: re.Pattern[str] | None
    roots: frozenset[str]


def _rewritten(item: Redacted, known: _Known) -> Redacted:
    """Rewrite every text below a value; what needs no change stays the same object."""
    changed = _changed(item, known, type(item), "")
    return item if changed is None else changed  # type: ignore[return-value]


def _changed(item: object, known: _Known, kind: type, name: str) -> object | None:
    """Return the rewritten value of a field of that name of a record, or None where it stays as it is."""
    if isinstance(item, str) and kind is RunVerdict and name == "command":
        return _copyable(item, known.owners)
    if isinstance(item, str):
        text = _text(item, name, known.roots)
        if known.owners is not None and name in OWNED.get(kind, ()):
            text = known.owners.sub("user", text)
        return text if text != item else None
    if isinstance(item, tuple):
        plain = is_plain(item, owners=known.owners is not None)
        changed = [] if plain else [_changed(part, known, kind, name) for part in item]
        if all(part is None for part in changed):
            return None
        return tuple(old if new is None else new for old, new in zip(item, changed, strict=True))
    if not isinstance(item, Struct):
        return None
    changes = {
        part: new
        for part in fields_to_search(item, owners=known.owners is not None)
        if (new := _changed(getattr(item, part), known, type(item), part)) is not None
    }
    return structs.replace(item, **changes) if changes else None


def _text(text: str, name: str, roots: Collection[str]) -> str:
    if name in FILE_FIELDS:
        return file_name(text)
    if name not in COMMAND_FIELDS:
        return without_private_folders(text, roots)
    return without_folders(_masked(text))


def _masked(text: str) -> str:
    """Put a sign for every host and secret in a command line."""
    text = _LOGIN.sub("user@host", text)
    for pattern in _MASKED:
        text = pattern.sub(r"\1…", text)
    return text


def _copyable(command: str, owners: re.Pattern[str] | None) -> str:
    """Rewrite a command line that is to be copied argument by argument: what is masked takes no quote with it.

    A path without its folders would name another file: it begins with a sign for them. A line whose quotes do not match
    is none to be copied.
    """
    try:
        arguments = shlex.split(command)
    except ValueError:
        return ""
    # Without what parts words, each argument stays one where several tell together that the last is a secret.
    plain = [_PARTS_WORDS.sub("_", argument) for argument in arguments]
    shown = []
    for place, argument in enumerate(arguments):
        before = plain[max(0, place - _LOOKED_BACK) : place]
        text = _shown_argument(argument, before)
        shown.append(owners.sub("user", text) if owners is not None else text)
    return shlex.join(shown) if shown != arguments else command


def _shown_argument(argument: str, before: list[str]) -> str:
    """Return an argument of a command without what is private; those before it can tell that it is a secret."""
    after_output = before[-2:-1] == ["-o"] and before[-1].endswith("-full")
    may_be_told = before and not after_output and not argument.startswith("-")
    if may_be_told and _masked(f"{' '.join(before)} value").endswith(" …"):
        return "…"
    secret = _SECRET.match(argument)
    if secret is not None:
        return f"{secret[0]}…"
    if before and before[-1] in _NAMING:
        return without_private_folders(_masked(argument))
    return _PATH.sub(_without_place, _WINDOWS_HOME.sub("~", _masked(argument)))


def _without_place(match: re.Match[str]) -> str:
    """Put a sign for the folders of a path; what lies in the current one stays."""
    if _BESIDE.fullmatch(match[0]) is not None:
        return match[0]
    last = _last_part(match)
    return last if last in ("~", match[0]) else f"…/{last}"


def _last_part(match: re.Match[str]) -> str:
    parts = _parts(match[0])
    if parts[:-1] == ["."]:
        return match[0]
    if _HOME.fullmatch(match[0]) or not parts:
        return "~" if parts else match[0]
    return parts[-1]


def _shortened(match: re.Match[str], roots: Collection[str]) -> str:
    """Shorten a path within a text where it is private; the `//` of a comment stays."""
    path, before = match[0], match.string[match.start() - 1 : match.start()]
    parts = _parts(path)
    if any(part.lower() in _HOME_PARTS for part in parts[:-1]):
        return _last_part(match)
    if not _is_absolute(path, parts, before):
        return path
    if path[0] == "/" and parts[0] not in roots and parts[0].lower() not in _DATA_ROOTS:
        return path
    return f"//{parts[-1]}" if _AFTER_SLASHES.match(path) else parts[-1]


def _is_absolute(path: str, parts: list[str], before: str) -> bool:
    """Tell whether it has folders below a root, drive or share. An address is none, nor are escapes: `"x:\\t%d\\n"`."""
    if _RELATIVE.match(before) or (before == ":" and _AFTER_SLASHES.match(path)):
        return False
    if path[0] == "/":
        return len(parts) > 1
    if path[0] == "\\":
        return _SHARE.match(path) is not None
    return len(parts) > 2 and not ("\\" in path and "%" in path)


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", path) if part]
