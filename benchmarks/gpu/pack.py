"""The pack that is sent: what the steps have left, small files first, reports in order of worth until it is full."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.parts import PART_BYTES, end, fragment, write_parts

KIND, SCHEMA = "gpuprof-gpu", 1
STEP_FILE = "step.json"
MANIFEST = f"{KIND}/manifest.json"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}")
DEEPEST = 5
MOST_PARTS = 4
"""Files of a pack: 60 MB in all."""
_SMALL = 128 * 1024
_RESERVED = 512 * 1024
_FIRST, _USUAL, _LAST = 0, 1, 2


class Piece(NamedTuple):
    """A piece of the pack: its file, how soon it is taken, its size, and the files in it."""

    file: Path
    rank: int
    size: int
    members: tuple[str, ...]


def member_name(step: str, file: str) -> str | None:
    """Return the name that a step's file has in a pack; None for one that a pack does not take."""
    parts = file.split("/")
    if len(parts) > DEEPEST or not all(map(NAME.fullmatch, (step, *parts))):
        return None
    return f"{KIND}/steps/{step}/{file}"


def forget(out: Path, step: str) -> None:
    """Have no pieces of a step whose results are about to change: whatever ends this then, none is out of date."""
    (out / "pieces" / step / "index.json").unlink(missing_ok=True)


def remember(out: Path, step: str) -> None:
    """Compress what a step has left, once, so that a pack is only pieces one behind the other."""
    folder = out / "pieces" / step
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = out / "steps" / step
    small: list[tuple[str, bytes]] = []
    index: list[dict[str, object]] = []
    refused = []
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        file = str(path.relative_to(source))
        name = member_name(step, file)
        if name is None:
            refused.append(file)
        elif path.stat().st_size <= _SMALL or file == STEP_FILE:
            small.append((name, path.read_bytes()))
        else:
            rank = _LAST if path.name.startswith("full") else _USUAL
            index.append(_written(folder, len(index) + 1, rank, [(name, path.read_bytes())]))
    index.insert(0, _written(folder, 0, _FIRST, small))
    write_whole(folder / "index.json", {"pieces": index, "refused": refused})


def _written(folder: Path, number: int, rank: int, members: Sequence[tuple[str, bytes]]) -> dict[str, object]:
    file, data = folder / f"{number}.gz", fragment(members)
    file.write_bytes(data)
    return {"file": file.name, "rank": rank, "size": len(data), "members": [name for name, _ in members]}


def packed(out: Path, title: str, steps: Sequence[str], about: Mapping[str, object], target: Path) -> tuple[Path, ...]:
    """Write gpuprof-gpu-TITLE.tar.gz to a folder, in parts where it is large; return its files."""
    room = MOST_PARTS * PART_BYTES - _RESERVED
    taken: list[Piece] = []
    left_out = []
    for piece in sorted(_pieces(out, steps), key=lambda piece: piece.rank):
        if piece.size <= room:
            room -= piece.size
            taken.append(piece)
        else:
            left_out += [{"file": name, "why": "the pack is full"} for name in piece.members]
    for step in steps:
        left_out += [{"file": f"{step}/{name}", "why": "its name"} for name in _index(out, step).get("refused", [])]
    manifest = {"kind": KIND, "schema": SCHEMA, **about, "left_out": left_out}
    text = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
    pieces: list[bytes | Path] = [*(piece.file for piece in taken), fragment([(MANIFEST, text)]), end()]
    return write_parts(target / f"{KIND}-{title}.tar.gz", pieces)


def _pieces(out: Path, steps: Sequence[str]) -> Iterator[Piece]:
    for step in steps:
        for row in _index(out, step).get("pieces", []):
            file = out / "pieces" / step / row["file"]
            yield Piece(file, rank=row["rank"], size=row["size"], members=tuple(row["members"]))


def _index(out: Path, step: str) -> dict[str, list]:  # type: ignore[type-arg]
    file = out / "pieces" / step / "index.json"
    if not file.exists():
        if not (out / "steps" / step).is_dir():
            return {}
        remember(out, step)
    return dict(json.loads(file.read_text(encoding="utf-8")))


def write_whole(file: Path, value: object) -> None:
    """Write JSON, all or nothing."""
    draft = file.with_name(f".{file.name}-{os.getpid()}.draft")
    draft.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(file)
