"""Raw samples on disk: one JSON line a probe configuration, only ever appended, so that an interrupted run goes on.

The first line says what follows: kind, schema, gpuprof's version and the GPU. A last line without its end is half
written; it is dropped with a remark and measured again. Anything else that is wrong is an error.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpuprof.errors import DamagedInput, InputError

KIND = "gpuprof-samples"
SCHEMA = 1
_MAX_BYTES = 512 * 2**20
_MAX_LINE = 16 * 2**20
_LARGEST = 1e30

Parameter = str | int | float | bool
FixedValues = tuple[tuple[str, Parameter], ...]
"""The variables of a result that fix it, in the order of the probe."""


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


class Sample(NamedTuple):
    """One timed launch: how many iterations, seconds, cycles in the kernel, SM clock by NVML, throttle reasons.

    None where it was not recorded.
    """

    iterations: int
    time_s: float
    cycles: float | None = None
    sm_clock_hz: float | None = None
    reasons: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one configuration of a probe. `round` tells the sweep (0) from what was measured again."""

    probe: str
    configuration: Mapping[str, Parameter]
    round: int
    samples: tuple[Sample, ...]

    @property
    def key(self) -> tuple[str, tuple[tuple[str, Parameter], ...], int]:
        """Return what makes a series another one than all others."""
        return self.probe, tuple(sorted(self.configuration.items())), self.round


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds. `whole_bytes`: how far its complete lines go. Remarks are sentences about what was dropped."""

    header: SamplesHeader
    series: tuple[Series, ...]
    whole_bytes: int
    remarks: tuple[str, ...] = ()

    def done(self) -> frozenset[object]:
        """Return the keys of the series that need no measuring again."""
        return frozenset(one.key for one in self.series)


def read_samples(data: bytes, file: str) -> Stored:
    """Read a sample file. Raises InputError for what is none or of another schema, DamagedInput for a broken one."""
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
    if not lines:
        raise InputError(f"{file} holds no gpuprof samples: its first line is missing")
    header = _header(_object(lines[0], file, 1), file)
    series = tuple(_series(_object(line, file, number), file, number) for number, line in enumerate(lines[1:], 2))
    _refuse_twice(series, file)
    remarks: tuple[str, ...] = ()
    if whole < len(data):
        remarks = (f"{file}: line {len(lines) + 1} is half written and was dropped; it is measured again",)
    return Stored(header, series, whole, remarks)


class SampleFile:
    """A sample file that is being written. Each series is on disk before the next one is measured."""

    def __init__(self, path: Path, header: SamplesHeader, *, resume: bool = False) -> None:
        """Begin a file, or go on with one. Raises InputError if it is there (or, to resume, if it is another GPU's)."""
        self.path = path
        if not resume:
            self.stored = Stored(header, (), 0)
            self._begin()
            return
        self.stored = read_samples(_bytes(path), str(path))
        if not self.stored.header.same_gpu(header):
            there = self.stored.header
            raise InputError(
                f"{path} holds samples of {there.device} with driver {there.driver}, not of {header.device} with "
                f"{header.driver}",
                "start anew without --resume",
            )
        with path.open("r+b") as file:
            file.truncate(self.stored.whole_bytes)

    def append(self, series: Series) -> None:
        """Write a series to the end of the file."""
        with self.path.open("ab") as file:
            file.write(series_line(series))
            file.flush()
            os.fsync(file.fileno())

    def _begin(self) -> None:
        try:
            with self.path.open("xb") as file:
                file.write(header_line(self.stored.header))
        except FileExistsError as error:
            raise InputError(f"{self.path} is there already", "go on with --resume, or remove it") from error
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


def series_line(series: Series) -> bytes:
    """Return the line of a series. Raises ValueError for a number that JSON cannot hold."""
    return _line(
        {
            "probe": series.probe,
            "configuration": dict(series.configuration),
            "round": series.round,
            "samples": [list(sample) for sample in series.samples],
        }
    )


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise InputError(f"{path} is not there or no file", "start anew without --resume")
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path} is larger than {_MAX_BYTES} bytes; samples take a few megabytes")
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
        raise DamagedInput(f"{file} is damaged: line {number} is no JSON object")
    return content


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


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
    return SamplesHeader(text("gpuprof_version"), text("device"), pci_id, driver, text("started"))


def _series(content: Mapping[str, Any], file: str, number: int) -> Series:
    place = f"{file} is damaged: line {number}"
    probe, configuration = content.get("probe"), content.get("configuration")
    if not isinstance(probe, str) or not probe or not probe.isprintable():
        raise DamagedInput(f"{place} names no probe")
    if not isinstance(configuration, dict) or not all(map(_is_parameter, [*configuration, *configuration.values()])):
        raise DamagedInput(f"{place} has no configuration of plain values")
    round_, samples = content.get("round"), content.get("samples")
    if not isinstance(round_, int) or not _is_whole(round_):
        raise DamagedInput(f"{place} has round {round_!r:.40}")
    if not isinstance(samples, list) or not samples:
        raise DamagedInput(f"{place} has no samples")
    return Series(probe, configuration, round_, tuple(_sample(one, place) for one in samples))


def _sample(content: Any, place: str) -> Sample:
    if not isinstance(content, list) or len(content) != len(Sample._fields):
        raise DamagedInput(f"{place} has a sample that is no list of {len(Sample._fields)}")
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
    return Sample(iterations, float(time_s), _float(cycles), _float(clock), reasons)


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


def _refuse_twice(series: Sequence[Series], file: str) -> None:
    seen: dict[object, int] = {}
    for number, one in enumerate(series, 2):
        if one.key in seen:
            raise DamagedInput(f"{file} is damaged: lines {seen[one.key]} and {number} are the same series")
        seen[one.key] = number
