"""What must not leave a machine: names of user and host, folders, serial numbers; out of texts, traces and reports."""

from __future__ import annotations

import getpass
import gzip
import io
import json
import re
import socket
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

REPORT = ".ncu-rep"
TEXTS = frozenset({".csv", ".json", ".jsonl", ".log", ".md", ".sh", ".svg", ".txt", ".yaml", ".yml"})
"""Kinds of files that are kept, also compressed, besides reports; what else there is cannot be looked into."""
_MAGIC = b"NVR\0"
_LARGEST = 512 * 2**20
"""A compressed text that is larger is not looked into."""
_ORDINARY = frozenset({
    "active", "admin", "app", "azureuser", "build", "bytes", "cluster", "code", "coder", "codespace", "command",
    "commands", "compute", "conda", "container", "cuda", "cycles", "data", "debian", "default", "dev", "device",
    "devices", "docker", "dram", "driver", "ec2-user", "fabric", "figures", "file", "files", "float", "global",
    "gpu", "gpuprof", "guest", "head", "host", "id", "instance", "issue", "jovyan", "kernel", "kernels", "lab",
    "launch", "linux", "local", "localhost", "login", "main", "master", "me", "memory", "metric", "model", "name",
    "ncu", "nobody", "node", "nsys", "nvidia", "opc", "out", "pipe", "problems", "profile", "python", "raw",
    "report", "request", "root", "run", "runner", "sample", "seconds", "section", "sector", "server", "session",
    "shared", "slurm", "source", "sources", "stall", "state", "step", "steps", "student", "sum", "survey",
    "tensor", "test", "texture", "thread", "throughput", "tmp", "torch", "triton", "ubuntu", "unit", "user",
    "vagrant", "value", "version", "versions", "vm", "vscode", "warp", "words", "work", "worker",
})  # fmt: skip
"""Names of users and hosts that tell of nobody, and that texts and the names of metrics are full of."""
_SHORTEST_FOLDER = 4
_SHORT_WORD = 5
_RUN = 8
"""A name in a report counts where so many printable characters stand together: numbers and code are no text."""
_PERSON = rb"[^\s/\\:;,<>|\"'`()\x00-\x1f\x7f]{1,64}"
_HOME = re.compile(rb"(?<![\w.-])((?:/+private)?/+(?:home|Users)/+)(" + _PERSON + rb")")
_HOME_IN_REPORT = re.compile(rb"(/(?:home|Users)/)(" + _PERSON + rb")(?=/)")
_SERIAL = re.compile(
    rb"^[ \t]*(?:[\w()/-]+ ){0,4}(?:serial number|serial|uuid|guid|gpu pdi|board id|hostname)[ \t]*:[^\n]*\n?",
    re.IGNORECASE | re.MULTILINE,
)
_PROCESSES = re.compile(rb"^([ \t]+)Processes\b[^\n]*\n(?:\1[ \t]+[^\n]*\n?|[ \t]*\n)*", re.MULTILINE)
"""What nvidia-smi -q tells of the programs that use a GPU."""
_UUID = re.compile(rb"\b(GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_BESIDE = b"/_@=:-. \"'\\"


class NotKept(Exception):
    """Why a file does not go into the pack."""


class Names(NamedTuple):
    """What is looked for: folders, and users and hosts, longest first; each with what a text says in its place."""

    folders: tuple[tuple[str, str], ...]
    identities: tuple[tuple[str, str], ...]


def names_here(folders: Iterable[tuple[Path, str]]) -> Names:
    """Return what names this machine, its user, and these folders."""
    from os.path import realpath

    home = Path.home()
    users = {*_user(), home.name}
    hosts = {name for whole in (socket.gethostname(), socket.getfqdn()) for name in (whole, whole.partition(".")[0])}
    folder_words = {}
    for folder, word in (*folders, (home, "/home/user")):
        folder_words.update({str(folder): word, realpath(folder): word})
    return Names(
        tuple(sorted(((name, word) for name, word in folder_words.items() if len(name) >= _SHORTEST_FOLDER),
                     key=_longest)),
        tuple(sorted(((name, word) for names, word in ((users, "user"), (hosts, "host")) for name in names
                      if len(name) > 1 and name.lower() not in _ORDINARY), key=_longest)),
    )  # fmt: skip


def _user() -> Iterator[str]:
    try:
        yield getpass.getuser()
    except (KeyError, OSError):  # a container may run without a name
        return


def _longest(named: tuple[str, str]) -> tuple[int, str]:
    return -len(named[0]), named[0]


def scrubbed(name: str, data: bytes, names: Names) -> bytes:
    """Return what may be kept of a file. Raises NotKept where it cannot be looked into."""
    suffix = Path(name).suffix
    if suffix == REPORT:
        if not data.startswith(_MAGIC):
            raise NotKept("it is no report that can be looked into: it is compressed, or cut off")
        return in_report(data, names)
    if suffix == ".gz" and Path(name).with_suffix("").suffix in TEXTS:
        return gzip.compress(in_text(_unpacked(data), names), mtime=0)
    if suffix not in TEXTS:
        raise NotKept(f"files of the kind {suffix or 'without a suffix'} are not looked into")
    if b"\0" in data:
        raise NotKept("it is no text")
    return in_text(data, names)


def _unpacked(data: bytes) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as packed:
            text = packed.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise NotKept(f"it cannot be unpacked: {error}") from error
    if len(text) > _LARGEST:
        raise NotKept("it is too large to be looked into")
    return text


def in_text(data: bytes, names: Names) -> bytes:
    """Return a text with other words in the place of names; lines with serial numbers go."""
    for pattern, word in _folder_patterns(names):
        data = pattern.sub(word.replace(b"\\", rb"\\"), data)
    data = _HOME.sub(rb"\1user", data)
    for pattern, word in _word_patterns(names):
        data = pattern.sub(word, data)
    return _UUID.sub(_zeros, _SERIAL.sub(b"", _PROCESSES.sub(b"", data)))


def in_value(value: object, names: Names) -> object:
    """Return a value for JSON with its texts scrubbed; its keys stay."""
    if isinstance(value, str):
        return in_text(value.encode("utf-8", "surrogateescape"), names).decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: in_value(item, names) for key, item in value.items()}
    return [in_value(item, names) for item in value] if isinstance(value, (list, tuple)) else value


def in_report(data: bytes, names: Names) -> bytes:
    """Return a report with neutral bytes in the place of names, as many as they were: lengths stand before texts.

    What stands before and after a text is any byte, letters too, so that a name counts also within a word.
    """
    for name, _ in names.folders:
        data = re.sub(_ways(name), lambda match: b"/" + b"x" * (len(match[0]) - 1), data)
    data = _HOME_IN_REPORT.sub(lambda match: match[1] + b"x" * len(match[2]), data)
    for name, _ in names.identities:
        data = re.sub(_ways(name), _neutral, data, flags=re.IGNORECASE)
    return _UUID.sub(_zeros, data)


def _folder_patterns(names: Names) -> Iterator[tuple[re.Pattern[bytes], bytes]]:
    for name, word in names.folders:
        yield re.compile(b"(?:" + _ways(name) + rb")(?![\w-])"), word.encode()


def _word_patterns(names: Names) -> Iterator[tuple[re.Pattern[bytes], bytes]]:
    for name, word in names.identities:
        alone = rb"(?<![A-Za-z0-9])(?:" + _ways(name) + rb")(?![A-Za-z0-9])"
        yield re.compile(alone, re.IGNORECASE), word.encode()


def _ways(name: str) -> bytes:
    """Return an expression for a name as texts, JSON and addresses write it."""
    ways = dict.fromkeys((name, json.dumps(name)[1:-1], quote(name)))
    return b"|".join(re.escape(way.encode("utf-8", "surrogateescape")) for way in ways)


def _neutral(match: re.Match[bytes]) -> bytes:
    """Return as many neutral bytes as a name has, where it stands in text."""
    data, start, stop = match.string, match.start(), match.end()
    while start > 0 and stop - start < _RUN and _printable(data[start - 1]):
        start -= 1
    while stop < len(data) and stop - start < _RUN and _printable(data[stop]):
        stop += 1
    beside = data[match.start() - 1 : match.start()] + data[match.end() : match.end() + 1]
    alone = len(match[0]) >= _SHORT_WORD or any(byte in _BESIDE for byte in beside)
    is_text = alone and stop - start >= _RUN
    return b"x" * len(match[0]) if is_text else match[0]


def _printable(byte: int) -> bool:
    return 32 <= byte < 127


def _zeros(match: re.Match[bytes]) -> bytes:
    return match[1] + re.sub(rb"[0-9a-f]", b"0", match[0][len(match[1]) :], flags=re.IGNORECASE)
