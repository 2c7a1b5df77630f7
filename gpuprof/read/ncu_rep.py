"""Reports of ncu (`.ncu-rep` and its kin): their values are read here, in memory that the file does not fill.

The blocks are walked, each launch's message is split once to see that it is whole, and is read again where a value is
asked for. What gpuprof does not know is left out with a warning, or the report refused with the way out: ncu's CSV.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gpuprof.errors import DamagedInput, InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.quantities import EXPORT_REPORT
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.container import AGAIN, Container, walk
from gpuprof.read.device_attributes import compute_capability
from gpuprof.read.launches import LaunchMaker, clocks_locked
from gpuprof.read.many_launches import all_facts
from gpuprof.read.metric_values import UnknownForm
from gpuprof.read.ncu_command import cache_control, clock_control
from gpuprof.read.ncu_details import EmbeddedPrograms, KernelIdentity, alike, function_addresses
from gpuprof.read.ncu_messages import LaunchMessages
from gpuprof.read.ncu_metrics import NcuMetrics
from gpuprof.read.protobuf import Malformed
from gpuprof.read.report_bytes import Content, content_of
from gpuprof.read.result_message import ResultMessage
from gpuprof.read.source_reader import LaunchProgram, SourceReader

_TOOL = "Nsight Compute Target"
_NOT_KNOWN = "which this gpuprof does not know"


def read_ncu_rep(path: Path, *, salvage: bool = False) -> Report:
    """Read a report. Raises DamagedInput unless every launch that the file declares could be read.

    InputError says that it is made in a way that is not known. With `salvage`, what could be read is returned, and
    damage and what is not known become warnings.
    """
    content = content_of(path)
    container = walk(content.data)
    warnings: list[str] = []
    if container.strange is not None:
        if not salvage or not container.spans:
            raise _strange(path, container)
        warnings.append(f"{container.strange}, {_NOT_KNOWN}: {_read_sentence(container)}")
    elif content.damage is not None or container.damage is not None or len(container.spans) != container.results:
        if not salvage or not container.spans:
            raise _damaged(path, container, content)
        warnings.append(_damage_sentence(container, content))
    if not container.versions and container.results:
        warnings.append("the file names no tool version; it may be cut off at the end of a block")
    launches = _read(path, content, container, salvage=salvage)
    warnings.extend(f"{what}, {_NOT_KNOWN}: it is left out" for what in (container.unknown, launches.strange) if what)
    return Report(
        file=str(path),
        sha256=content.digest.result(),
        kind="cuprof-report" if path.suffix == ".nsight-cuprof-report" else "ncu-rep",
        tool="ncu",
        tool_version=container.versions.get(_TOOL, "").split(" ")[0] or None,
        launches=tuple(launches.launches),
        devices=tuple(launches.devices),
        clock_control=clock_control(container.command, launches.clocks_locked),
        cache_control=cache_control(container.command),
        command=container.command,
        driver=container.versions.get("Display Driver Version"),
        created_s=container.created_s,
        names=frozenset(container.names),
        warnings=(*warnings, *launches.warnings),
    )


class _Launches(Struct, frozen=True):
    """The launches of a report and their GPUs, what the first one tells of all, and what could not be read.

    `strange` is something in them that is not known.
    """

    launches: Sequence[Launch]
    devices: Sequence[RecordedDevice]
    clocks_locked: bool | None
    strange: str | None
    warnings: tuple[str, ...]


def _read(path: Path, content: Content, container: Container, *, salvage: bool) -> _Launches:
    """Read the launches. Raises DamagedInput if one does not parse."""
    messages = LaunchMessages(str(path), content.data, container.names, container.spans)
    warnings = _leave_out_broken(messages) if salvage else ()
    programs = EmbeddedPrograms(content.data, container.sources)
    kernels: list[KernelIdentity] = []

    def program_of(number: int) -> LaunchProgram | None:
        _, mangled, reference = kernels[number]
        data = programs.whole(reference)
        if data is None:
            return None
        if mangled in data.starts:
            return LaunchProgram(data, mangled)
        return LaunchProgram(data, mangled, function_addresses(NcuMetrics(messages, number)))

    code = SourceReader(program_of, lambda: dict.fromkeys(alike(kernels)))
    maker = LaunchMaker(messages, programs, code)
    locked, capability = _of_first(messages)
    launches = [maker.launch(facts) for facts in all_facts(messages, capability)]
    kernels.extend(maker.kernels)
    return _Launches(
        launches,
        maker.devices.recorded,
        clocks_locked=locked,
        strange=maker.strange,
        warnings=warnings,
    )


def _of_first(messages: LaunchMessages) -> tuple[bool | None, str | None]:
    """Return what the first launch tells of all: whether clocks were held, the GPU's compute capability."""
    if not messages.spans:
        return None, None
    message = messages.split(0)
    try:
        locked = clocks_locked(message)
    except Malformed as broken:
        raise messages.damaged("a launch", Malformed(message.base, broken.why)) from broken
    return locked, compute_capability(NcuMetrics(messages, 0).single)


def _leave_out_broken(messages: LaunchMessages) -> tuple[str, ...]:
    """Keep the launches all of whose values can be read, and say how many cannot, and where the first breaks off."""
    whole: list[int] = []
    broken: list[Malformed] = []
    for number in range(len(messages.spans)):
        try:
            _check(messages.parsed(number))
            whole.append(number)
        except Malformed as error:
            broken.append(error)
    if not broken:
        return ()
    if not whole:
        place = f"at byte {broken[0].at}, {broken[0].why}"
        raise DamagedInput(f"{messages.file} is damaged: {place}; none of {len(broken)} launches can be read", AGAIN)
    messages.leave_only(whole)
    left_out = f"{len(broken)} of {len(broken) + len(whole)} launches are left out"
    return (f"at byte {broken[0].at}, {broken[0].why}; {left_out}",)


def _check(message: ResultMessage) -> None:
    """Decode all values of a launch. Raises Malformed where one does not parse."""
    for name in message.layout.names():
        with contextlib.suppress(UnknownForm):
            message.value(name)
        with contextlib.suppress(UnknownForm):
            message.instances(name, {})


def _strange(path: Path, container: Container) -> InputError:
    hint = f"update gpuprof, or {EXPORT_REPORT}"
    if container.spans:
        hint += f"; --salvage shows the {len(container.spans)} that could be read"
    return InputError(f"{path}: {container.strange}, {_NOT_KNOWN}", hint)


def _damaged(path: Path, container: Container, content: Content) -> DamagedInput:
    hint = "copy it again from where it was recorded"
    if container.unknown is not None:
        hint += f"; if a newer ncu wrote it: {EXPORT_REPORT}"
    if container.spans:
        hint += f"; --salvage shows the {len(container.spans)} that could be read"
    return DamagedInput(f"{path} is damaged: {_damage_sentence(container, content)}", hint)


def _damage_sentence(container: Container, content: Content) -> str:
    read, place = _read_sentence(container), _damage_place(container, content)
    return f"{place}; {read}" if place is not None else f"it declares {container.results} kernels; {read}"


def _read_sentence(container: Container) -> str:
    whole = len(container.spans)
    return f"{whole} kernel{'' if whole == 1 else 's'} could be read"


def _damage_place(container: Container, content: Content) -> str | None:
    """Say where a report is damaged, and how; that of a compressed file comes before that of the unpacked data."""
    if content.damage is not None:
        return f"at byte {content.damage.offset}, {content.damage.why}"
    if container.damage is None:
        return None
    unpacked = " of the unpacked data" if content.packed else ""
    return f"at byte {container.damage.offset}{unpacked}, {container.damage.why}"
