"""session.json back into a Session, every field checked against the contract's types before it is believed."""

from __future__ import annotations

import gc
import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, get_args

import msgspec

from gpuprof.errors import DamagedInput, InputError, hinted
from gpuprof.model.session import SCHEMA_VERSION, KernelProfile, RunTotals, RunVerdict, SchemaVersion, Session, Timeline

_FAULT = re.compile(r"(?s)(.*?)(?: - at `(\$[^`]*)`)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_LONGEST = 200
_PROFILERS = (["ncu"], ["nv-nsight-cu-cli"], ["gpuprof"])
_AGAIN = "copy it again, or write it again from its reports: gpuprof show REPORT --format json"
_MAKES_DECODER = threading.Lock()
_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_session(data: str | bytes, file: str) -> Session:
    """Read the JSON contract. Raises InputError for another version, DamagedInput for anything that breaks it.

    Bytes are UTF-8, or UTF-16 with a mark, and take half the memory of their text.
    """
    with hinted(_AGAIN), _no_search_for_garbage():
        try:
            session = _decoder().decode(data.removeprefix(_MARK) if isinstance(data, bytes) else data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            session = _read_slowly(data if isinstance(data, str) else _text(data), file)
        _check_references(session, file)
        _check_judged(session, file)
        if session.run is not None:
            _check_run(session.run, session.kernels, file)
    return session


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Spare the search for cycles while a session is made: it has none, and half the time would go into it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _text(data: bytes) -> str:
    return data.decode("utf-16" if data.startswith(_UTF16_MARKS) else "utf-8-sig", "replace")


def _decoder() -> msgspec.json.Decoder[Session]:
    """Return the decoder, which one thread alone makes: msgspec crashes where two look at new types at once."""
    with _MAKES_DECODER:
        return _new_decoder()


@cache
def _new_decoder() -> msgspec.json.Decoder[Session]:
    return msgspec.json.Decoder(Session)


def _read_slowly(text: str, file: str) -> Session:
    """Read what msgspec's decoder refuses: say what is wrong with it, or take lone surrogates as other JSON readers do.

    A file's name can have them, where it is not UTF-8.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_hook=_without_foreign_names)
    except (ValueError, RecursionError) as error:
        raise DamagedInput(f"{file} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError(
            f"{file} is JSON, but not a gpuprof session: it has no schema_version",
            "gpuprof reads its own session.json, and JSON traces of PyTorch",
        )
    version = data["schema_version"]
    if version not in get_args(SchemaVersion):
        known = isinstance(version, (int, float))
        relation = "newer than" if known and version > SCHEMA_VERSION else "older than" if known else "not"
        raise InputError(
            f"{file} has session schema {version!r:.60}, {relation} the {SCHEMA_VERSION} that this gpuprof reads",
            "read it with the gpuprof that wrote it, or profile again",
        )
    try:
        return _converted(data, text)
    except msgspec.ValidationError as error:
        raise DamagedInput(f"{file} is damaged: {_fault(str(error), data)}") from error


def _without_foreign_names(record: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields whose names have lone surrogates: the contract has none, msgspec fails."""
    return {name: value for name, value in record.items() if not _SURROGATE.search(name)}


def _converted(data: Any, text: str) -> Session:
    """Return the session of a text. Raises msgspec.ValidationError where it breaks the contract."""
    try:
        return msgspec.convert(data, Session)
    except UnicodeEncodeError:  # A lone surrogate where another type belongs: without it, msgspec tells the place.
        return msgspec.convert(json.loads(text, object_hook=_without_surrogates), Session)


def _without_surrogates(record: dict[str, Any]) -> dict[str, Any]:
    """Return an object with other signs for lone surrogates in its texts and lists of texts."""
    return {
        name: [_replaced(part) for part in value] if isinstance(value, list) else _replaced(value)
        for name, value in _without_foreign_names(record).items()
    }


def _replaced(value: Any) -> Any:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _fault(message: str, data: Any) -> str:
    """Return the decoder's message with the place first and the value there, as far as it is short."""
    fault = _FAULT.fullmatch(message)
    what, where = (fault[1], fault[2]) if fault else (message, None)
    value = data
    for name, number in _STEP.findall(where or ""):
        value = value[name] if name else value[int(number)]
    where = f"session{where[1:]}" if where else "session"
    if what.startswith("Object missing required field"):
        return f"{where} has no {what.split('`')[1]}"
    if what.startswith("Invalid enum value"):
        return f"{where} is {value!r:.60}, which is not one of its values"
    if "matching regex" in what:
        return f"{where} is {value!r:.60}, which is not a valid name"
    return f"{where} is {value!r:.60}: {what[:1].lower()}{what[1:_LONGEST]}"


def _check_references(session: Session, file: str) -> None:
    if session.timeline is not None:
        _check_timeline(session.timeline, len(session.sources), file)
    numbers: set[int] = set()
    for kernel in session.kernels:
        if not 0 <= kernel.device < len(session.devices) or not 0 <= kernel.source < len(session.sources):
            raise DamagedInput(f"{file} is damaged: kernel {kernel.id} names a device or source that does not exist")
        if kernel.id in numbers:
            raise DamagedInput(f"{file} is damaged: two kernels have the number {kernel.id}")
        numbers.add(kernel.id)
        _check_compared(kernel, file)


def _check_compared(kernel: KernelProfile, file: str) -> None:
    """Refuse launches, counts and lines of a kernel that contradict each other."""
    times, names = kernel.launch_times, {count.name for count in kernel.counts}
    fault = None
    if times is not None and (times.dropped < 0 or len(times.durations_s) + times.dropped > kernel.launches):
        fault = "lists other launches than it has"
    elif times is not None and len(times.sm_clocks_hz) not in (0, len(times.durations_s)):
        fault = "has clocks of other launches than durations"
    elif len(names) < len(kernel.counts):
        fault = "has two counts of one name"
    elif not all(count.low <= count.value <= count.high for count in kernel.counts):
        fault = "has a count outside of its least and most"
    elif kernel.lines_dropped < 0:
        fault = "has fewer than no lines left out"
    if fault is not None:
        raise DamagedInput(f"{file} is damaged: kernel {kernel.id} {fault}")


def _check_timeline(timeline: Timeline, sources: int, file: str) -> None:
    """Refuse a timeline of files that are not there."""
    named = {device.source for device in timeline.devices} | {step.source for step in timeline.steps}
    named |= {flop.source for flop in timeline.model_flop}
    for source in named | {wait.source for wait in timeline.waits}:
        if not 0 <= source < sources:
            raise DamagedInput(f"{file} is damaged: its timeline names source {source}, which does not exist")


def _check_judged(session: Session, file: str) -> None:
    """Refuse causes, opportunities and a verdict that name findings or kernels which are not there."""
    kernels = _kernels_of_findings(session, file)
    numbers = {kernel.id for kernel in session.kernels}
    if session.verdict is not None:
        _check_verdict(session.verdict, numbers, file)
    names: set[str] = set()
    for item in session.opportunities:
        lost = next((name for name in item.findings if name not in kernels), None)
        if lost is not None or not item.findings:
            what = "no finding" if lost is None else f"finding {lost}, which does not exist"
            raise DamagedInput(f"{file} is damaged: its opportunity {item.id} names {what}")
        if set(item.kernels) != {kernels[name] for name in item.findings}:
            raise DamagedInput(f"{file} is damaged: its opportunity {item.id} and its findings name different kernels")
        if item.id in names:
            raise DamagedInput(f"{file} is damaged: two opportunities have the id {item.id}")
        names.add(item.id)


def _check_verdict(verdict: RunVerdict, kernels: set[int], file: str) -> None:
    """Refuse a verdict on a kernel that is not there, or with a command to be copied that is none of gpuprof's."""
    if verdict.kernel not in {None, *kernels}:
        raise DamagedInput(f"{file} is damaged: its verdict names kernel {verdict.kernel}, which does not exist")
    if verdict.command is not None and not _runs_a_profiler(verdict.command):
        raise DamagedInput(f"{file} is damaged: the command in its verdict does not run a profiler")


def _runs_a_profiler(command: str) -> bool:
    """Tell whether a command line is as gpuprof writes it: one command, quoted so that a shell runs nothing else."""
    try:
        arguments = shlex.split(command)
    except ValueError:
        return False
    return arguments[:1] in _PROFILERS and command.isprintable() and shlex.join(arguments) == command


def _kernels_of_findings(session: Session, file: str) -> dict[str, int]:
    """Return the number of each finding's kernel by the finding's id; those of version 1 have none."""
    kernels: dict[str, int] = {}
    for kernel in session.kernels:
        for finding in kernel.findings:
            if not finding.id and session.schema_version > 1:
                raise DamagedInput(f"{file} is damaged: a finding of kernel {kernel.id} has no id")
            if finding.id and finding.id in kernels:
                raise DamagedInput(f"{file} is damaged: two findings have the id {finding.id}")
            kernels[finding.id] = kernel.id
        for finding in kernel.findings:
            if finding.cause is not None and (kernels.get(finding.cause) != kernel.id or finding.cause == finding.id):
                raise DamagedInput(f"{file} is damaged: kernel {kernel.id} lacks the finding {finding.cause}, a cause")
    return kernels


def _check_run(run: RunTotals, kernels: tuple[KernelProfile, ...], file: str) -> None:
    """Refuse totals of a run that contradict each other, or that are less than the kernels of the session."""
    launches = sum(kernel.launches for kernel in kernels)
    shapes = run.kernels <= run.timed_shapes <= run.timed_launches
    counts = 0 <= run.main_kernels <= run.kernels and shapes and run.timed_launches <= run.launches >= launches
    if not counts or run.main_time_s > run.time_s or (run.time_s > 0) != (run.main_kernels > 0):
        raise DamagedInput(f"{file} is damaged: the totals of its run contradict each other or its kernels")
