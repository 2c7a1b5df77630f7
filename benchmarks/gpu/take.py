"""Takes packs in: checked as something from a stranger, kept as data of tests with an index, told as results."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tarfile import AREGTYPE, BLOCKSIZE, REGTYPE, HeaderError, TarInfo
from typing import Any, NamedTuple

from benchmarks.gpu.pack import KIND, MANIFEST, SCHEMA, STEP_FILE, member_name, write_whole
from benchmarks.gpu.results import write_results
from benchmarks.gpu.scrub import REPORT, TEXTS
from benchmarks.parts import number_of
from gpuprof.errors import DamagedInput, InputError, UsageError

LARGEST_FILE = 5_000_000
LARGEST_DATA = 40_000_000
"""What the recordings of all GPUs may take in the repository."""
_LEVEL = 19
"""How much reports are compressed: they take a tenth of their size then."""
_LARGEST_PACK = 128 * 2**20
_LARGEST_MEMBER = 256 * 2**20
_LARGEST_WHOLE = 2**31
_MOST_MEMBERS = 20_000
_PIECE = 2**20
_STEP = re.compile(rf"{KIND}/steps/([a-z0-9-]{{1,60}})/(.+)")
_WORD = re.compile(r"[^A-Za-z0-9 ._/+%:,×&()=|<>#@'\"*-]+")
_LONGEST_WORD = 300
_LONGEST_COMMAND = 20_000


class Pack(NamedTuple):
    """What a pack holds: what it says of itself, and the files of each step."""

    manifest: Mapping[str, Any]
    steps: Mapping[str, Mapping[str, bytes]]


def take_in(files: Sequence[Path], root: Path) -> list[str]:
    """Take packs into a checkout; return what was done. Raises InputError, and nothing is written, for a bad pack."""
    packs = [read_pack(_joined(parts)) for parts in _archives(files)]
    told: list[str] = []
    for pack in packs:
        told += _placed(pack, root / "tests" / "data" / "gpu")
    page = write_results(root)
    return [*told, f"results: {page.relative_to(root)}"]


def _archives(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the files of each archive, its parts in order."""
    groups: dict[str, dict[int | None, Path]] = {}
    for file in files:
        name, number = number_of(file)
        if number in groups.setdefault(name, {}):
            raise UsageError(f"{file.name} is named twice", "name each file once")
        groups[name][number] = file
    for name, parts in groups.items():
        numbers = sorted(number for number in parts if number is not None)
        if None in parts and numbers:
            raise UsageError(f"{name} is named as a whole and in parts", "name one of both")
        if numbers != list(range(1, len(numbers) + 1)):
            missing = next(number for number in range(1, len(numbers) + 2) if number not in numbers)
            raise InputError(f"part {missing} of {name} is missing", "name all of its parts")
        yield [parts[number] for number in numbers] or [parts[None]]


def _joined(parts: Sequence[Path]) -> bytes:
    try:
        size = sum(part.stat().st_size for part in parts)
        if size > _LARGEST_PACK:
            raise InputError(f"{parts[0].name} takes {size} bytes, more than a pack can", "was it made by the kit?")
        return b"".join(part.read_bytes() for part in parts)
    except OSError as error:
        raise InputError(f"cannot read {parts[0].name}: {error.strerror or error}") from error


def read_pack(data: bytes) -> Pack:
    """Read a pack. Raises InputError for anything that the kit does not write: links, devices, foreign names, bombs."""
    manifest: Mapping[str, Any] | None = None
    steps: dict[str, dict[str, bytes]] = {}
    for name, content in _members(_Unpacked(data)):
        if name == MANIFEST:
            manifest = _object(content, name)
            continue
        place = _STEP.fullmatch(name)
        step, file = place.groups() if place is not None else ("", "")
        if manifest is not None or member_name(step, file) != name:
            raise InputError(f"the pack has a file {name[:80]!r}, which no pack has", "was it made by the kit?")
        if not _kept_kind(file):
            raise InputError(f"the pack has {name[:80]!r}, of a kind that no pack has", "was it made by the kit?")
        if file in steps.setdefault(step, {}):
            raise InputError(f"the pack has {name[:80]!r} twice", "was it made by the kit?")
        steps[step][file] = content
    if manifest is None:
        raise DamagedInput("the pack is cut off: its list of contents is missing", "are all its parts there?")
    if (manifest.get("kind"), manifest.get("schema")) != (KIND, SCHEMA):
        raise InputError(f"the pack is of kind {manifest.get('kind')!r}, schema {manifest.get('schema')!r}", None)
    return Pack(manifest, steps)


def _kept_kind(file: str) -> bool:
    path = Path(file)
    return path.suffix in {*TEXTS, REPORT} or (path.suffix == ".gz" and path.with_suffix("").suffix in TEXTS)


class _Unpacked:
    """The bytes of a gzip file of many members, unpacked as far as they are read."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._ready, self._total = bytearray(), 0
        self._unpacker = zlib.decompressobj(wbits=31)

    def read(self, size: int) -> bytes:
        """Return so many bytes. Raises DamagedInput where there are fewer, InputError where they are too many."""
        while len(self._ready) < size:
            self._more()
        piece = bytes(self._ready[:size])
        del self._ready[:size]
        return piece

    def _more(self) -> None:
        pending = self._unpacker.unconsumed_tail
        if self._unpacker.eof:
            self._at -= len(self._unpacker.unused_data)
            self._unpacker, pending = zlib.decompressobj(wbits=31), b""
        if not pending:
            pending = self._data[self._at : self._at + _PIECE]
            self._at += len(pending)
        if not pending:
            raise DamagedInput("the pack is cut off", "are all its parts there?")
        try:
            unpacked = self._unpacker.decompress(pending, _PIECE)
        except zlib.error as error:
            raise DamagedInput(f"the pack is damaged: {error}", "get it again") from error
        self._total += len(unpacked)
        if self._total > _LARGEST_WHOLE:
            raise InputError("the pack unpacks to more than any pack holds", "was it made by the kit?")
        self._ready += unpacked


def _members(source: _Unpacked) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file. Only regular files with plain headers are known: others are refused."""
    for _ in range(_MOST_MEMBERS):
        block = source.read(BLOCKSIZE)
        if not block.strip(b"\0"):
            return
        try:
            header = TarInfo.frombuf(block, "utf-8", "strict")
        except (HeaderError, UnicodeError) as error:
            raise DamagedInput(f"the pack is damaged: {error}", "get it again") from error
        if header.type not in (REGTYPE, AREGTYPE) or header.name.endswith("/"):
            raise InputError(f"the pack has {header.name[:80]!r}, which is no plain file", "was it made by the kit?")
        if not 0 <= header.size <= _LARGEST_MEMBER:
            raise InputError(f"{header.name[:80]!r} takes {header.size} bytes", "was it made by the kit?")
        yield header.name, source.read(header.size + -header.size % BLOCKSIZE)[: header.size]
    raise InputError("the pack has more files than any pack has", "was it made by the kit?")


def _object(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedInput(f"{name} is damaged: {error}", "get it again") from error
    if not isinstance(value, dict):
        raise InputError(f"{name} holds no object", "was it made by the kit?")
    return value


def _placed(pack: Pack, data: Path) -> Iterator[str]:
    """Write the files of the steps that came to an end, and the index; yield what was done."""
    gpu = word(pack.manifest.get("gpu") or "")
    if not slug(gpu):
        raise InputError("the pack names no GPU", "it is of a machine without one")
    folder = data / slug(gpu)
    had = _index(folder / "index.json").get("steps", {})
    about = {name: _object(files[STEP_FILE], STEP_FILE) for name, files in pack.steps.items() if STEP_FILE in files}
    for name in [name for name, step in about.items() if step.get("state") == "cut" and _is_whole(had.get(name))]:
        yield f"{gpu}: {name} was cut, and is here from a run that was not"
        del about[name]
    folder.mkdir(parents=True, exist_ok=True)
    index = _index(folder / "index.json") | {
        "gpu": gpu,
        "compute_capability": word(pack.manifest.get("compute_capability") or ""),
    }
    left_out = {name: why for name, why in index.get("left_out", {}).items() if name.partition("/")[0] not in about}
    left_out |= dict(_left_out(pack.manifest))
    for name in about:
        shutil.rmtree(folder / name, ignore_errors=True)
    room = LARGEST_DATA - sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    for name, step in about.items():
        files = {}
        stored = [(file, *_stored(file, content)) for file, content in pack.steps[name].items()]
        for made, file, content in sorted(stored, key=lambda row: len(row[2])):
            if made == STEP_FILE:
                continue
            if len(content) > LARGEST_FILE or len(content) > room:
                left_out[f"{name}/{file}"] = f"{len(content)} bytes, more than the repository takes"
                continue
            place = folder / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            room -= len(content)
            files[file] = {"bytes": len(content), **_made_by(step, made)}
        index["steps"] = {**index.get("steps", {}), name: {**_told(step), "files": files}}
    index["left_out"] = left_out
    write_whole(folder / "index.json", index)
    yield f"{gpu}: {len(about)} steps in {folder.name}/, {len(left_out)} files left out"
    yield from (f"  left out {name}: {why}" for name, why in left_out.items())


def _is_whole(step: Mapping[str, Any] | None) -> bool:
    return step is not None and step["state"] != "cut"


def _stored(file: str, content: bytes) -> tuple[str, bytes]:
    """Return under which name and how a file is kept: reports compressed, as ncu can do it."""
    if not file.endswith(REPORT):
        return file, content
    if sys.version_info >= (3, 14):
        from compression import zstd

        return f"{file}z", zstd.compress(content, _LEVEL)
    import zstandard

    return f"{file}z", zstandard.ZstdCompressor(level=_LEVEL).compress(content)


def _index(file: Path) -> dict[str, Any]:
    index = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {"kind": KIND, "schema": SCHEMA, **index}


def _left_out(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    rows = manifest.get("left_out")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            yield word(row.get("file", "")).removeprefix(f"{KIND}/steps/"), word(row.get("why", ""))


def _told(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the index keeps of a step, and nothing else that a stranger may have written."""
    versions, figures, problems = step.get("versions"), step.get("figures"), step.get("problems")
    return {
        "state": word(step.get("state", "")),
        "seconds": number(step.get("seconds")),
        "versions": {word(name): word(text) for name, text in versions.items()} if isinstance(versions, dict) else {},
        "figures": [
            {"name": word(item.get("name", "")), "value": number(item.get("value")), "unit": word(item.get("unit", ""))}
            for item in (figures if isinstance(figures, list) else [])
            if isinstance(item, dict)
        ],
        "problems": [word(item) for item in (problems if isinstance(problems, list) else [])],
    }


def _made_by(step: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return the command that left a file, its exit code and seconds; nothing where the step itself wrote it."""
    commands = step.get("commands")
    for call in reversed(commands if isinstance(commands, list) else []):
        files = call.get("files") if isinstance(call, dict) else None
        if isinstance(files, list) and file in files:
            command = call.get("words")
            return {
                "command": [str(argument)[:_LONGEST_COMMAND] for argument in command]
                if isinstance(command, list)
                else [],
                "code": number(call.get("code")),
                "seconds": number(call.get("seconds")),
            }
    return {}


def slug(name: str) -> str:
    """Return a name as a folder: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]


def word(value: object) -> str:
    """Return a text as one line without what a page or a terminal would act on."""
    return " ".join(_WORD.sub(" ", str(value)).split())[:_LONGEST_WORD]


def number(value: object) -> float | None:
    """Return a number that is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e30:
        return None
    return value
