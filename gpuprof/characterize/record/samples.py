"""Raw samples on disk: one JSON line a probe configuration, only ever appended, so that an interrupted run goes on.

The first line says what follows: kind, schema, gpuprof's version and the GPU. A last line without its end is half
written; it is dropped with a remark and measured again. Anything else that is wrong is an error.

A line has one object, `configuration`, for what was chosen and what was seen; which is which is told by the names, here
alone. So a file of an older gpuprof is read, and an older one reads what is written here. A note on the run has the
form of a series of a probe called "run", with one sample that holds the time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from gpuprof.characterize.record.series import OBSERVED, Observed, RunNote, Sample, Series, SeriesConfig
from gpuprof.errors import DamagedInput, InputError, hinted
from gpuprof.own_files import open_plain, read_plain

KIND = "gpuprof-samples"
SCHEMA = 1
_MAX_BYTES = 512 * 2**20
_ANEW = "start over without --resume"
_MAX_LINE = 16 * 2**20
_LARGEST = 1e30
_NEVER_ZERO = frozenset({"block", "grid", "sms", "ran"})
"""Settings of a launch that has run: 0 is no number of threads, blocks or SMs."""

RUN = "run"
"""In the place of a probe: the line is a note on the run itself."""


@dataclass(frozen=True, slots=True)
class SamplesHeader:
    """What the samples are of. Samples of another GPU or driver are another file."""

    gpuprof_version: str
    device: str
    pci_id: str | None
    driver: str | None
    started: str

    def same_gpu(self, other: SamplesHeader) -> bool:
        """Tell whether two runs measured the same product with the same driver."""
        return (self.device, self.pci_id, self.driver) == (other.device, other.pci_id, other.driver)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds. `whole_bytes`: how far its complete lines go. Remarks are sentences about what was dropped."""

    header: SamplesHeader
    series: tuple[Series, ...]
    notes: tuple[RunNote, ...]
    whole_bytes: int
    remarks: tuple[str, ...] = ()


def read_samples(data: bytes, file: str) -> Stored:
    """Read a sample file. Raises InputError for what is none or of another schema, DamagedInput for a broken one."""
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
    if not lines:
        raise InputError(f"{file} holds no gpuprof samples: its first line is missing")
    header = _header(_object(lines[0], file, 1), file)
    entries = [_entry(_object(line, file, number), file, number) for number, line in enumerate(lines[1:], 2)]
    _refuse_twice(entries, file)
    remarks: tuple[str, ...] = ()
    if whole < len(data):
        remarks = (f"{file}: line {len(lines) + 1} is half written and was dropped; it is measured again",)
    return Stored(
        header=header, series=tuple(entry for entry in entries if isinstance(entry, Series)),
        notes=tuple(entry for entry in entries if isinstance(entry, RunNote)), whole_bytes=whole, remarks=remarks,
    )  # fmt: skip


class SampleFile:
    """A sample file that is being written. Each series is on disk before the next one is measured."""

    def __init__(self, path: Path, header: SamplesHeader, *, resume: bool = False) -> None:
        """Begin a file, or go on with one. Raises InputError if it is there (or, to resume, if it is another GPU's)."""
        self.path = path
        if not resume:
            self.stored = Stored(header, series=(), notes=(), whole_bytes=0)
            self._begin()
            return
        with hinted(_ANEW):
            self.stored = read_samples(_bytes(path), str(path))
        if not self.stored.header.same_gpu(header):
            there = self.stored.header
            raise InputError(
                f"{path} holds samples of {there.device} with driver {there.driver}, not of {header.device} with "
                f"{header.driver}",
                _ANEW,
            )
        with open_plain(path, "r+b") as file:
            file.truncate(self.stored.whole_bytes)

    def append(self, entry: Series | RunNote) -> None:
        """Write a series or a note to the end of the file."""
        with open_plain(self.path, "ab") as file:
            file.write(entry_line(entry))
            file.flush()
            os.fsync(file.fileno())

    def _begin(self) -> None:
        try:
            with open_plain(self.path, "xb") as file:
                file.write(header_line(self.stored.header))
        except FileExistsError as error:
            raise InputError(f"{self.path} already exists", "continue with --resume, or remove it") from error
        except OSError:
            # Without its first line it could not be gone on with.
            with contextlib.suppress(OSError):
                self.path.unlink()
            raise


def header_line(header: SamplesHeader) -> bytes:
    """Return the first line of a file."""
    return _line(
        {
            "kind": KIND,
            "schema": SCHEMA,
            "gpuprof_version": header.gpuprof_version,
            "device": header.device,
            "pci_id": header.pci_id,
            "driver": header.driver,
            "started": header.started,
        }
    )


def entry_line(entry: Series | RunNote) -> bytes:
    """Return the line of a series or a note. Raises ValueError for a number that JSON cannot hold."""
    if isinstance(entry, RunNote):
        named = {"number": entry.number, "what": entry.what, "probe": entry.probe, "why": entry.why}
        settings = {name: value for name, value in named.items() if value is not None} | dict(entry.facts)
        return _line({"probe": RUN, "configuration": settings, "round": 0, "samples": [list(Sample(0, entry.time_s))]})
    return _line(
        {
            "probe": entry.probe,
            "configuration": entry.config.settings() | entry.seen.settings(),
            "round": entry.round,
            "samples": [list(sample) for sample in entry.samples],
        }
    )


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _bytes(path: Path) -> bytes:
    try:
        data = read_plain(path, _MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path} is larger than {_MAX_BYTES / 2**20:g} MiB; samples take a few megabytes")
    return data


def _object(line: bytes, file: str, number: int) -> dict[str, Any]:
    if len(line) > _MAX_LINE:
        raise DamagedInput(f"{file} is damaged: line {number} has {len(line)} bytes")
    try:
        content = json.loads(line.decode(), parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        problem = InputError if number == 1 else DamagedInput
        raise problem(f"{file}: line {number} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise DamagedInput(f"{file} is damaged: line {number} is not a JSON object")
    return content


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key appears twice")
    return content


def _header(content: Mapping[str, Any], file: str) -> SamplesHeader:
    if content.get("kind") != KIND:
        raise InputError(f"{file} holds no gpuprof samples: its first line does not say so")
    if content.get("schema") != SCHEMA or isinstance(content["schema"], bool):
        raise InputError(
            f"{file} has sample schema {content.get('schema')!r:.40}, not the {SCHEMA} that this gpuprof reads",
            "read it with the gpuprof that wrote it, or measure again",
        )

    def text(name: str) -> str:
        value = content.get(name)
        if not isinstance(value, str) or not value.isprintable():
            raise DamagedInput(f"{file} is damaged: {name} is {value!r:.40}")
        return value

    pci_id = text("pci_id") if content.get("pci_id") is not None else None
    driver = text("driver") if content.get("driver") is not None else None
    return SamplesHeader(
        gpuprof_version=text("gpuprof_version"), device=text("device"), pci_id=pci_id, driver=driver,
        started=text("started"),
    )  # fmt: skip


def _entry(content: Mapping[str, Any], file: str, number: int) -> Series | RunNote:
    place = f"{file} is damaged: line {number}"
    probe, settings = content.get("probe"), content.get("configuration")
    if not isinstance(probe, str) or not probe or not probe.isprintable():
        raise DamagedInput(f"{place} names no probe")
    if not isinstance(settings, dict) or not all(map(_is_parameter, [*settings, *settings.values()])):
        raise DamagedInput(f"{place} has no configuration of plain values")
    round_, listed = content.get("round"), content.get("samples")
    if not isinstance(round_, int) or not _is_whole(round_):
        raise DamagedInput(f"{place} has round {round_!r:.40}")
    if not isinstance(listed, list) or not listed:
        raise DamagedInput(f"{place} has no samples")
    samples = tuple(_sample(row, place) for row in listed)
    if probe == RUN:
        return _note(settings, samples[0].time_s, place)
    return Series(
        probe=probe,
        config=series_config({name: value for name, value in settings.items() if name not in OBSERVED}, place),
        seen=Observed(**_fields(Observed, settings, place)),
        round=round_,
        samples=samples,
    )


def series_config(settings: Mapping[str, Any], place: str) -> SeriesConfig:
    """Return what was chosen, from the settings that a file or a command line has. Raises DamagedInput."""
    named = _fields(SeriesConfig, settings, place)
    return SeriesConfig(values={name: settings[name] for name in settings if name not in named}, **named)


def _note(settings: Mapping[str, Any], time_s: float, place: str) -> RunNote:
    named = _fields(RunNote, settings, place)
    return RunNote(time_s=time_s, facts={name: settings[name] for name in settings if name not in named}, **named)


def _fields(record: type, settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the settings that are fields of a record, each of the field's type, and none missing that it needs."""
    named = {}
    for name, (holds, needed) in _kinds(record).items():
        if name in settings:
            if not holds(settings[name]) or (name in _NEVER_ZERO and not settings[name]):
                raise DamagedInput(f"{place} has {name} {settings[name]!r:.40}")
            named[name] = settings[name]
        elif needed:
            raise DamagedInput(f"{place} lacks {name}")
    return named


@cache
def _kinds(record: type) -> dict[str, tuple[Callable[[Any], bool], bool]]:
    """Return for each plain field of a record what its value must be, and whether there must be one."""
    hints = get_type_hints(record)
    return {
        declared.name: (_HOLDS[hints[declared.name]], declared.default is MISSING)
        for declared in fields(record)
        if hints[declared.name] in _HOLDS
    }


def _sample(content: Any, place: str) -> Sample:
    if not isinstance(content, list) or len(content) != len(Sample._fields):
        raise DamagedInput(f"{place} has a sample that is not a list of {len(Sample._fields)}")
    iterations, time_s, cycles, clock, reasons = content
    good = (
        _is_whole(iterations),
        _is_amount(time_s) and time_s > 0,
        cycles is None or _is_amount(cycles),
        clock is None or _is_amount(clock),
        reasons is None or _is_whole(reasons),
    )
    if not all(good):
        name = Sample._fields[good.index(False)]
        raise DamagedInput(f"{place} has a sample with {name} {content[good.index(False)]!r:.40}")
    return Sample(iterations, float(time_s), _float(cycles), sm_clock_hz=_float(clock), reasons=reasons)


def plain(text: str) -> str:
    """Return a text as the file takes it: one line of printable characters."""
    return "".join(char if char.isprintable() else " " for char in text)


def _float(value: float | None) -> float | None:
    return float(value) if value is not None else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_amount(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= _LARGEST


def _is_parameter(value: Any) -> bool:
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and abs(value) < 2**63


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HOLDS: dict[object, Callable[[Any], bool]] = {
    str: _is_text, str | None: _is_text, int: _is_whole, int | None: _is_whole, float | None: _is_number,
    bool | None: _is_flag,
}  # fmt: skip


def _refuse_twice(entries: Sequence[Series | RunNote], file: str) -> None:
    seen: dict[object, int] = {}
    for number, entry in enumerate(entries, 2):
        key = (entry.probe, entry.config, entry.seen, entry.round) if isinstance(entry, Series) else (RUN, entry.number)
        if key in seen:
            raise DamagedInput(f"{file} is damaged: lines {seen[key]} and {number} are the same series")
        seen[key] = number
