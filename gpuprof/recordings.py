"""The reports that come with gpuprof, for `gpuprof demo`: what they are, whence, and their bytes.

`recordings/recordings.yaml` lists them; each is a report file, compressed. Those of other people's programs are written
from the values of the reports named there, and have neither source text nor machine code.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.hardware.yaml_fields import Fields
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree
from gpuprof.resources import data_dir

REINSTALL = "reinstall gpuprof"
"""What mends a recording."""
_KEYS = {"title", "command", "steps", "launches", "repository", "commit", "path", "blob", "licence"}


@dataclass(frozen=True, slots=True)
class Origin:
    """The report of others that a recording was written from. `blob` is git's name of its contents."""

    repository: str
    path: str
    blob: str
    commit: str | None
    licence: str
    launches: int | None
    """How many of its launches were taken, the first ones; None for all."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One report that ships. `origin` is None for our own; with `steps` each kernel is the fix of the one before it."""

    name: str
    title: str
    command: str
    steps: bool
    origin: Origin | None
    place: Path

    @property
    def file_name(self) -> str:
        """The name that the report has once it is unpacked."""
        return f"{self.name}.ncu-rep"

    def report(self) -> bytes:
        """Return the bytes of a report file. Raises InputError or DamagedInput if what ships is not whole."""
        try:
            return gzip.decompress(self.place.read_bytes())
        except FileNotFoundError as error:
            raise InputError(f"{self.place} is missing", REINSTALL) from error
        except (OSError, EOFError, zlib.error) as error:
            raise DamagedInput(f"{self.place} is damaged: {error}", REINSTALL) from error


def recordings(folder: Path | None = None) -> tuple[Recording, ...]:
    """Return the recordings that ship, our own first, then as listed. Raises SpecError for a broken list."""
    folder = folder or data_dir("recordings")
    tree = load_tree(folder / "recordings.yaml")
    recordings = [_recording(name, node, folder) for name, node in tree.mapping("recordings").items()]
    if not recordings:
        raise BrokenSpec(tree.place, "it lists no recordings")
    return tuple(sorted(recordings, key=lambda recording: recording.origin is not None))


def _recording(name: str, node: YamlNode, folder: Path) -> Recording:
    fields = Fields(node, f"the recording {name}", _KEYS)
    return Recording(
        name,
        title=fields.text("title"),
        command=fields.text("command"),
        steps=fields.flag("steps"),
        origin=_origin(fields) if "repository" in fields else None,
        place=folder / f"{name}.ncu-rep.gz",
    )


def _origin(fields: Fields) -> Origin:
    return Origin(
        repository=fields.text("repository"),
        path=fields.text("path"),
        blob=fields.text("blob"),
        commit=fields.optional_text("commit"),
        licence=fields.text("licence"),
        launches=fields.whole("launches") if "launches" in fields else None,
    )
