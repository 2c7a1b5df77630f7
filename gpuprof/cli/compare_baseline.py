"""`--update-baseline`: the files of the new side take the place of those of the base, once the gate has passed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprof.cli.compare_gate import has_judged
from gpuprof.cli.compare_sides import SideFiles
from gpuprof.cli.interrupt import cleaned_up_by
from gpuprof.cli.output import say, to_type
from gpuprof.errors import UsageError
from gpuprof.own_files import draft_of

if TYPE_CHECKING:
    from gpuprof.comparison.contract import Gate


def refuse_baseline(sides: SideFiles, *, limits: bool, force: bool) -> None:
    """Raise UsageError if it is not clear what would take the place of what."""
    option = "--update-baseline"
    if not limits and not force:
        raise UsageError(
            f"{option} needs limits: it keeps the base where they do not hold", "add --fail-on, or --force"
        )
    if len(sides.base) != len(sides.new):
        raise UsageError(
            f"{option}: {len(sides.base)} and {len(sides.new)} files, and which replaces which is not clear",
            "name as many new files as base files, or copy them yourself",
        )
    for base, new in zip(*sides, strict=True):
        for file in (base, new):
            if not Path(file).is_file() and (file == "-" or Path(file).exists()):
                raise UsageError(f"{option}: {file:.100} is not a regular file", "name files")
        if Path(base).is_file() and not Path(base).stat().st_mode & 0o222:
            raise UsageError(f"{option}: {base:.100} is read-only", f"chmod u+w {to_type([base])}")
        if _is_same(base, new):
            raise UsageError(f"{option}: {base:.100} and {new:.100} are the same file", "leave the option out")
        if Path(base).suffix.lower() != Path(new).suffix.lower():
            raise UsageError(
                f"{option}: {new:.100} would replace {base:.100}, a file of another kind", "name files of one kind"
            )


def refuse_part(*, part: bool, salvage: bool) -> None:
    """Raise UsageError if only a part of the new side is checked against the limits, and all of it would be kept."""
    option = "--update-baseline"
    if part:
        raise UsageError(f"{option}: --kernel holds the limits against some kernels only", "leave one of them out")
    if salvage:
        raise UsageError(
            f"{option}: what --salvage reads of a damaged report is not a baseline", "leave one of them out"
        )


def _is_same(base: str, new: str) -> bool:
    return Path(base).exists() and Path(new).exists() and Path(base).samefile(new)


def update_baseline(sides: SideFiles, gate: Gate | None, *, force: bool) -> None:
    """Copy the new files over the base if the gate has passed, or by force; report what was done."""
    files = ", ".join(sides.base)
    if not force and (gate is None or not gate.passed or not has_judged(gate)):
        why = "the gate has not passed" if gate is None or not gate.passed else "no limit could be judged"
        say(f"kept {files}: {why}")
        return
    _replace({Path(base): Path(new) for base, new in zip(*sides, strict=True)})
    forced = ", although the gate has not passed" if gate is not None and not gate.passed else ""
    say(f"replaced {files} by {', '.join(sides.new)}{forced}")


def _replace(files: dict[Path, Path]) -> None:
    """Replace all files or none: each is copied beside its place first, then moved there."""
    drafts: dict[Path, Path] = {}
    with cleaned_up_by(lambda: _remove(drafts.values())):
        try:
            for place, source in files.items():
                target = Path(os.path.realpath(place))
                drafts[target] = draft_of(target)
                shutil.copyfile(source, drafts[target])
                shutil.copymode(target, drafts[target])
            for target, draft in drafts.items():
                draft.replace(target)
        except OSError as error:
            _remove(drafts.values())
            raise UsageError(f"cannot write {next(iter(files))}: {error.strerror or error}") from error


def _remove(drafts: Iterable[Path]) -> None:
    for draft in drafts:
        draft.unlink(missing_ok=True)
