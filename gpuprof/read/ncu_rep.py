"""Reports of ncu (`.ncu-rep` and its kin) through NVIDIA's `ncu_report`, which is checked before it is believed.

`Any` appears here because ncu_report has no types; it does not leave this file.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gpuprof.code.binary.elf import INSTRUCTION_BYTES, instruction_word, kernel_code
from gpuprof.code.sass.instruction import instruction_of
from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import (
    Dim3,
    EmbeddedProgram,
    Launch,
    Metric,
    ProfiledInstruction,
    Report,
    RuleResult,
    plausible,
)
from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.container import (
    Container,
    MessageSpan,
    clocks_locked,
    cubin_of,
    launch_dimensions,
    program_name,
    section_names,
    walk,
)
from gpuprof.read.file_bytes import Bytes
from gpuprof.read.lean_report import Attributes, LeanReport, lean_copy
from gpuprof.read.native_guard import NamedBytes, prime, quiet, start
from gpuprof.read.ncu_code import CodeReader, InstructionPlace
from gpuprof.read.report_bytes import Packing, content_of
from gpuprof.units import ncu_unit

_RULE_KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
_WORKLOADS = {0: "kernel", 1: "range", 2: "command list", 3: "graph", 4: "subgrid schedule"}
_TOOL = "Nsight Compute Target"
_NANOSECONDS = "gpu__time_"
_TRIED_LAUNCHES = 500
_AGAIN = "copy the report again from where it was recorded, or profile again"
_NATIVE_ERRORS = (AttributeError, IndexError, MemoryError, OverflowError, RuntimeError, TypeError, ValueError)
"""What the native reader's bindings raise on values that do not make sense."""


def read_ncu_rep(path: Path, *, salvage: bool = False) -> Report:
    """Read a report. Raises DamagedInput unless every launch that the file declares could be read.

    With `salvage`, what could be read is returned and the damage becomes a warning.
    """
    data, later, packing = content_of(path)
    container = walk(data)
    if packing is not None and packing.damage is not None and not container.results:
        raise _damaged(path, container, packing, 0)
    ncu_report = _import_ncu_report()
    # A damaged file goes to the reader as it is: what it makes of it decides what can be salvaged.
    lean = lean_copy(data, container) if container.damage is None else LeanReport(data, (), frozenset())
    file = _File(path=path, data=later, container=container, lean=lean, opened=NamedBytes(lean.data))
    trial = start(lambda: _touch(ncu_report, file.opened.path))
    prime(ncu_report)
    sha256 = packing.sha256 if packing is not None else hashlib.sha256(data).hexdigest()
    del data
    with quiet():
        context = _load(ncu_report, file, trial.outcome())
        # The reader also loads a launch whose message is cut off; only those in whole blocks are believed.
        actions = _actions(context)[: container.results]
    warnings: list[str] = []
    if _damage_place(container, packing) is not None or len(actions) != container.results:
        if not salvage or not actions:
            raise _damaged(path, container, packing, len(actions))
        warnings.append(_damage_sentence(container, packing, len(actions)))
    if not container.versions and container.results:
        warnings.append("the file names no tool version; it may be cut off at the end of a block")
    try:
        return _report(file, actions, context, sha256, tuple(warnings))
    except _NATIVE_ERRORS as error:
        raise DamagedInput(f"{path} is damaged: NVIDIA's report reader fails on it: {error}", _AGAIN) from error


def _load(ncu_report: Any, file: _File, fate: str | None) -> Any:
    """Load with NVIDIA's reader, after a child process has shown that it survives this file."""
    if fate is not None:
        raise DamagedInput(
            f"{file.path} is damaged: NVIDIA's report reader {fate} on it",
            _AGAIN,
        )
    return ncu_report.load_report(file.opened.path)


def _import_ncu_report() -> Any:
    try:
        import ncu_report
    except ImportError as error:
        raise EnvironmentProblem(
            f"NVIDIA's report reader cannot be imported: {error}",
            "pip install ncu-report; or export the report as CSV",
        ) from error
    return ncu_report


def _touch(ncu_report: Any, path: str) -> None:
    """Do what reading does later, so that whatever kills it kills the child.

    What was seen to kill it is the loading of the whole file; of very many launches only the first are tried.
    """
    context = ncu_report.load_report(path)
    for action in itertools.islice(_each_action(context), _TRIED_LAUNCHES):
        action.name(), action.nvtx_state()


def _each_action(context: Any) -> Iterator[Any]:
    for index in range(context.num_ranges()):
        profiled = context.range_by_idx(index)
        for number in range(profiled.num_actions()):
            yield profiled.action_by_idx(number)


def _actions(context: Any) -> list[Any]:
    return list(_each_action(context))


def _whole_actions(file: _File) -> list[Any]:
    """Load the report as it is, with nothing left out."""
    whole = NamedBytes(file.data[:])
    return _actions(_import_ncu_report().load_report(whole.path))


def _damaged(path: Path, container: Container, packing: Packing | None, loaded: int) -> DamagedInput:
    hint = "copy it again from where it was recorded"
    if loaded:
        hint += f"; --salvage shows the {loaded} that could be read"
    return DamagedInput(f"{path} is damaged: {_damage_sentence(container, packing, loaded)}", hint)


def _damage_sentence(container: Container, packing: Packing | None, loaded: int) -> str:
    read = f"{loaded} kernel{'' if loaded == 1 else 's'} could be read"
    place = _damage_place(container, packing)
    return f"{place}; {read}" if place is not None else f"it declares {container.results} kernels; {read}"


def _damage_place(container: Container, packing: Packing | None) -> str | None:
    """Say where a report is damaged, and how; that of a compressed file comes before that of the unpacked data."""
    if packing is not None and packing.damage is not None:
        return f"at byte {packing.damage.offset}, {packing.damage.why}"
    if container.damage is None:
        return None
    unpacked = " of the unpacked data" if packing is not None else ""
    return f"at byte {container.damage.offset}{unpacked}, {container.damage.why}"


_STACK_POINTER = "c[0x0][0x28]"
"""What the first instruction of a kernel reads on Volta, and that of a function that it calls does not."""
_MOST_FUNCTIONS = 1000
_EXECUTED = "inst_executed"
"""Counted by instruction: a report that has it has code to look at."""


def _report(file: _File, actions: list[Any], context: Any, sha256: str, warnings: tuple[str, ...]) -> Report:
    path, data, container = file.path, file.data, file.container
    launches: list[Launch] = []
    devices: dict[tuple[int, str | None], int] = {}
    recorded: list[RecordedDevice] = []
    spans: tuple[MessageSpan | None, ...] = (
        container.spans if len(container.spans) == len(actions) else (None,) * len(actions)
    )
    load_whole = cache(lambda: _whole_actions(file))
    shared = _Shared(context, frozenset(container.names), file.lean.left_out, load_whole=load_whole)
    attributes = file.lean.attributes
    code = CodeReader(path, actions)
    if _EXECUTED in shared.names and _EXECUTED not in shared.left_out:
        code.prepare()
    for number, (action, span) in enumerate(zip(actions, spans, strict=True)):
        metrics = _NcuMetrics(action, number, shared, attributes[number] if number < len(attributes) else {})
        key = (_integer(metrics, "launch__device_id") or 0, metrics.text("device__attribute_display_name"))
        if key not in devices:
            devices[key] = len(recorded)
            recorded.append(_device(metrics))
        launches.append(_launch(action, metrics, devices[key], file, span, code))
    first = container.spans[0] if container.spans else None
    return Report(
        file=str(path),
        sha256=sha256,
        kind="cuprof-report" if path.suffix == ".nsight-cuprof-report" else "ncu-rep",
        tool="ncu",
        tool_version=container.versions.get(_TOOL, "").split(" ")[0] or None,
        launches=tuple(launches),
        devices=tuple(recorded),
        clock_control=_clock_control(container.command, clocks_locked(data, first) if first else None),
        cache_control=_cache_control(container.command),
        command=container.command,
        driver=container.versions.get("Display Driver Version"),
        created_s=container.created_s,
        sections=section_names(data, first) if first else (),
        names=frozenset(container.names),
        warnings=warnings,
    )


@dataclass(frozen=True, slots=True)
class _Program:
    """What the native reader gave of a kernel's code. All launches of the kernel in a process have the same."""

    sources: Mapping[str, str]
    places: dict[int, InstructionPlace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    """A report's bytes and their structure, for what NVIDIA's reader does not give."""

    path: Path
    data: Bytes
    container: Container
    lean: LeanReport
    opened: NamedBytes
    programs: dict[tuple[int | None, str], _Program | DamagedInput] = field(default_factory=dict)
    codes: dict[tuple[int, str], bytes] = field(default_factory=dict)
    cubins: dict[int, bytes | None] = field(default_factory=dict)


def _launch(
    action: Any, metrics: _NcuMetrics, device: int, file: _File, span: MessageSpan | None, code: CodeReader
) -> Launch:
    grid, block = _dimensions(metrics, "grid"), _dimensions(metrics, "block")
    if (grid is None or block is None) and span is not None:
        recorded_grid, recorded_block = launch_dimensions(file.data, span)
        block = block or recorded_block
        grid = grid or _grid_in_blocks(recorded_grid, block, _integer(metrics, "launch__grid_size"))
    name = _clean(action.name(action.NameBase_FUNCTION))
    mangled = _clean(action.name(action.NameBase_MANGLED)) or name
    return Launch(
        name=name,
        demangled=_clean(action.name(action.NameBase_DEMANGLED)) or name,
        device=device,
        kind=_WORKLOADS.get(int(action.workload_type()), "kernel"),
        process=span.process if span is not None else None,
        context=_integer(metrics, "launch__context_id"),
        stream=_integer(metrics, "launch__stream_id"),
        grid=grid,
        block=block,
        ranges=_nvtx_ranges(action),
        metrics=metrics,
        details=_NcuDetails(mangled, metrics, file, span, code),
        mangled=mangled,
    )


def _grid_in_blocks(recorded: Dim3 | None, block: Dim3 | None, blocks: int | None) -> Dim3 | None:
    """Return the grid in blocks: reports of 2021 and before record it in threads; None if neither reading fits."""
    if recorded is None or blocks is None or math.prod(recorded) == blocks:
        return recorded
    if block is None or any(size % width for size, width in zip(recorded, block, strict=True)):
        return None
    grid = (recorded[0] // block[0], recorded[1] // block[1], recorded[2] // block[2])
    return grid if math.prod(grid) == blocks else None


def _clean(text: object) -> str:
    return text if isinstance(text, str) else ""


def _dimensions(metrics: _NcuMetrics, which: str) -> Dim3 | None:
    sizes = [_integer(metrics, f"launch__{which}_dim_{axis}") for axis in "xyz"]
    return (sizes[0], sizes[1], sizes[2]) if sizes[0] and sizes[1] and sizes[2] else None


def _integer(metrics: _NcuMetrics, name: str) -> int | None:
    value = metrics.number(name)
    return round(value) if value is not None else None


def _device(metrics: _NcuMetrics) -> RecordedDevice:
    """Describe the GPU by the device attributes that every ncu report carries."""

    def attribute(name: str, scale: float = 1.0) -> float | None:
        value = metrics.number(f"device__attribute_{name}")
        return value * scale if value else None

    major, minor = (
        attribute("compute_capability_major"),
        metrics.number("device__attribute_compute_capability_minor"),
    )
    pci, sm_count = attribute("gpu_pci_device_id"), attribute("multiprocessor_count")
    bus, memory, l2 = (
        attribute("global_memory_bus_width"),
        attribute("total_memory"),
        attribute("l2_cache_size"),
    )
    return RecordedDevice(
        name=metrics.text("device__attribute_display_name"),
        compute_capability=f"{major:.0f}.{minor:.0f}" if major is not None and minor is not None else None,
        pci_id=f"{int(pci) & 0xFFFF:04x}:{int(pci) >> 16:04x}" if pci else None,
        sm_count=round(sm_count) if sm_count else None,
        max_sm_clock_hz=attribute("clock_rate", 1e3),
        max_memory_clock_hz=attribute("memory_clock_rate", 1e3),
        memory_bus_bits=round(bus) if bus else None,
        memory_bytes=round(memory) if memory else None,
        l2_bytes=round(l2) if l2 else None,
    )


def _nvtx_ranges(action: Any) -> tuple[str, ...]:
    """Return the names of the NVTX ranges around a launch, outermost first, the default domain unprefixed."""
    state = action.nvtx_state()
    if state is None:
        return ()
    names: list[str] = []
    for number in state.domains():
        domain = state.domain_by_id(number)
        prefix = "" if domain.name() in ("", "<default domain>") else f"{domain.name()}:"
        own = (*domain.push_pop_ranges(), *domain.start_end_ranges())
        names.extend(prefix + readable_range(str(name)) for name in own)
    return tuple(names)


def _clock_control(command: str | None, locked: bool | None) -> str | None:
    """Return the mode named on the command line, else whether ncu held the clocks."""
    named = _option(command, "--clock-control")
    if named is not None or locked is None:
        return named
    return "locked" if locked else "none"


def _cache_control(command: str | None) -> str | None:
    """Return the mode named on the command line; a command that names none ran with ncu's documented default."""
    return None if command is None else _option(command, "--cache-control") or "all (default)"


def _option(command: str | None, name: str) -> str | None:
    """Return the value that the recorded ncu command line gives an option, or None."""
    try:
        arguments = shlex.split(command or "")
    except ValueError:
        arguments = (command or "").split()
    for index, word in enumerate(arguments):
        if word == name:
            return arguments[index + 1] if index + 1 < len(arguments) else None
        if word.startswith(name + "="):
            return word.partition("=")[2]
    return None


@dataclass(slots=True)
class _Shared:
    """What the launches of a report have in common: the native report, the names in it, the whole file on demand."""

    context: Any
    names: frozenset[str]
    left_out: frozenset[str]
    load_whole: Callable[[], list[Any]]


class _NcuMetrics:
    """The metrics of one launch, read from the native report when asked for.

    The report's string table lists every name that occurs in it, so a name that is not there costs no native call.
    ncu stores base units but for nanoseconds, which in its metric lists of seven chips only `gpu__time_…` has; the
    name of a unit is known to NVIDIA's reader for the whole file only.
    """

    __slots__ = ("_action", "_attributes", "_instances", "_shared", "_values", "number_in_report")

    def __init__(self, action: Any, number: int, shared: _Shared, attributes: Attributes) -> None:
        self._action = action
        self.number_in_report = number
        self._shared = shared
        self._attributes = attributes
        self._values: dict[str, float | str | None] = {}
        self._instances: dict[str, Mapping[str | int, float] | None] = {}

    def get(self, name: str) -> Metric | None:
        """Return the metric of that exact name with its unit. Reads the whole report once."""
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, str) or name in self._attributes:
            return Metric(value, "")
        return Metric(value, ncu_unit(self.whole_action().metric_by_name(name).unit())[1])

    def number(self, name: str) -> float | None:
        """Return its value in a base unit, where it is a number."""
        value = self._value(name)
        return value if not isinstance(value, str) else None

    def digits(self, name: str) -> None:
        """Return nothing: a report keeps its numbers whole."""

    def text(self, name: str) -> str | None:
        """Return its value where it is text."""
        value = self._value(name)
        return value if isinstance(value, str) else None

    def native(self, name: str) -> Any:
        """Return NVIDIA's metric object, from the whole report if the copy lacks it; None if it was not recorded."""
        metric = self._action.metric_by_name(name)
        if metric is None and name in self._shared.left_out:
            metric = self.whole_action().metric_by_name(name)
        return metric

    def has(self, name: str) -> bool:
        """Tell whether there is an entry of that name, even one without a number."""
        return name in self._shared.names and self.native(name) is not None

    def _value(self, name: str) -> float | str | None:
        if name not in self._shared.names:
            return None
        if name not in self._values:
            attribute = self._attributes.get(name)
            self._values[name] = _finite(attribute) if attribute is not None else self._native_value(name)
        return self._values[name]

    def _native_value(self, name: str) -> float | str | None:
        try:
            native = self.native(name)
            value = _value_of(native) if native is not None else None
            if value is None or isinstance(value, str):
                return value
            return _finite(float(value) * (1e-9 if name.startswith(_NANOSECONDS) else 1.0))
        except _NATIVE_ERRORS as error:
            raise DamagedInput(f"a report is damaged: the value of {name} cannot be read: {error}", _AGAIN) from error

    def whole_action(self) -> Any:
        """Return this launch as the whole report has it, rules included."""
        return self._shared.load_whole()[self.number_in_report]

    def names(self) -> tuple[str, ...]:
        """Return the names of all recorded metrics, sorted."""
        action = self.whole_action() if self._shared.left_out else self._action
        names = {name for name in action.metric_names() if isinstance(name, str)}
        return tuple(sorted(names | self._attributes.keys()))

    def instances(self, name: str) -> Mapping[str | int, float] | None:
        """Return a metric's values by opcode or by program counter."""
        if name not in self._shared.names:
            return None
        if name not in self._instances:
            try:
                self._instances[name] = self._read_instances(name)
            except _NATIVE_ERRORS as error:
                raise DamagedInput(
                    f"a report is damaged: the values of {name} cannot be read: {error}", _AGAIN
                ) from error
        return self._instances[name]

    def addresses(self, name: str) -> tuple[int, ...]:
        """Return the addresses that a metric lists; none where it lists none."""
        native = self.native(name) if name in self._shared.names else None
        if native is None:
            return ()
        try:
            values = [_value_of(native, index) for index in range(native.num_instances())]
        except _NATIVE_ERRORS as error:
            raise DamagedInput(f"a report is damaged: the values of {name} cannot be read: {error}", _AGAIN) from error
        return tuple(value for value in values if isinstance(value, int))

    def _read_instances(self, name: str) -> Mapping[str | int, float] | None:
        native = self.native(name)
        if native is None or not native.has_correlation_ids():
            return None
        keys = native.correlation_ids()
        values: dict[str | int, float] = {}
        for index in range(native.num_instances()):
            key, value = _value_of(keys, index), _value_of(native, index)
            if isinstance(key, (str, int)) and isinstance(value, (int, float)):
                values[key] = values.get(key, 0) + value
        return values


def _value_of(native: Any, *index: int) -> float | int | str | None:
    """Return a native metric's value, or that of an instance: what its own value() does, without a table per call."""
    read = _value_readers().get(native.kind(*index))
    value: float | int | str | None = read(native, *index) if read is not None else None
    return value


@cache
def _value_readers() -> dict[int, Callable[..., Any]]:
    kind = _import_ncu_report().IMetric
    return {
        kind.ValueKind_DOUBLE: kind.as_double,
        kind.ValueKind_FLOAT: kind.as_double,
        kind.ValueKind_STRING: kind.as_string,
        kind.ValueKind_UINT32: kind.as_uint64,
        kind.ValueKind_UINT64: kind.as_uint64,
    }


def _finite(value: float | str) -> float | str | None:
    """Return a text or a plausible number, else None: it was not measured."""
    return value if isinstance(value, str) else plausible(value)


class _NcuDetails:
    """Rules, source and SASS of one launch. Launches of one kernel share its code."""

    __slots__ = ("_code", "_file", "_kernel", "_metrics", "_number", "_span")

    def __init__(
        self, kernel: str, metrics: _NcuMetrics, file: _File, span: MessageSpan | None, code: CodeReader
    ) -> None:
        self._kernel = kernel
        self._number = metrics.number_in_report
        self._code = code
        self._metrics = metrics
        self._file = file
        self._span = span

    def rule_results(self) -> tuple[RuleResult, ...]:
        """Return NVIDIA's own findings. The copy that is read does without them, so the whole report is loaded once."""
        whole = self._metrics.whole_action()
        return tuple(_rule(entry) for entry in whole.rule_results_as_dicts())

    def source_files(self) -> Mapping[str, str]:
        """Return embedded source text by file name. Raises DamagedInput where reading it would crash."""
        return self._program().sources

    def instructions(self, counts: tuple[str, ...] | None = None) -> tuple[ProfiledInstruction, ...]:
        """Return the SASS in address order with the named counts (None: all recorded) of each instruction."""
        program = self._program()
        names = counts if counts is not None else tuple(filter(_is_source_metric, self._metrics.names()))
        recorded: dict[int, dict[str, float]] = {}
        for name in names:
            for pc, value in (self._metrics.instances(name) or {}).items():
                if isinstance(pc, int):
                    recorded.setdefault(pc, {})[name] = value
        unknown = [pc for pc in recorded if pc not in program.places]
        if unknown:
            try:
                program.places.update(self._code.places(self._number, unknown))
            except DamagedInput as error:
                self._file.programs[self._key()] = error
                raise
        places = ((pc, *program.places[pc]) for pc in sorted(recorded))
        return tuple(ProfiledInstruction(pc, sass, file, line=at, counts=recorded[pc]) for pc, sass, file, at in places)

    def machine_words(self) -> Mapping[int, int]:
        """Return the encodings of the executed instructions; the first one lies at the start of the kernel."""
        executed = self._metrics.instances("thread_inst_executed_true") or {}
        addresses = [pc for pc in executed if isinstance(pc, int)]
        code = self.machine_code() if addresses else b""
        if not code:
            return {}
        start = min(addresses)
        encodings = {pc: instruction_word(code, pc - start) for pc in addresses}
        return {pc: word for pc, word in encodings.items() if word is not None}

    def machine_code(self) -> bytes:
        """Return the kernel's machine code; empty where the report embeds none or it is damaged."""
        program = self.program()
        if program is None:
            return b""
        key = (id(program.cubin), program.mangled)
        if key not in self._file.codes:
            try:
                self._file.codes[key] = kernel_code(program.cubin, program.mangled)
            except DamagedInput:
                self._file.codes[key] = b""
        return self._file.codes[key]

    def program(self) -> EmbeddedProgram | None:
        """Return the cubin that the kernel is in; None where the report embeds none. Launches of it share the bytes."""
        named = program_name(self._file.data, self._span) if self._span is not None else None
        cubins = self._file.cubins
        if named is None:
            return None
        mangled, reference = named
        if reference not in cubins:
            cubins[reference] = cubin_of(self._file.data, self._file.container, reference)
        cubin = cubins[reference]
        return EmbeddedProgram(mangled, cubin) if cubin is not None else None

    def program_text(self, size_bytes: int) -> Mapping[int, str]:
        """Return the SASS of the kernel's first bytes by offset, jumps to offsets, too; empty where there is no text.

        NVIDIA's reader has none of chips that it no longer knows: that of 2026.2 and later, of Volta.
        """
        start = self._start()
        if start is None:
            return {}
        places = self._code.places(self._number, range(start, start + size_bytes, INSTRUCTION_BYTES))
        texts = {pc - start: instruction_of(place.sass, pc) for pc, place in places.items()}
        return {offset: str(text.moved(-start)) for offset, text in texts.items() if text is not None}

    def _start(self) -> int | None:
        """Return the kernel's address: of several functions, that of the only one that sets up a stack pointer."""
        starts = self._metrics.addresses("launch__function_pcs")[:_MOST_FUNCTIONS]
        if len(starts) > 1:
            places = self._code.places(self._number, starts)
            starts = tuple(start for start in starts if _STACK_POINTER in places[start].sass)
        return starts[0] if len(starts) == 1 else None

    def _key(self) -> tuple[int | None, str]:
        return (self._span.process if self._span is not None else None, self._kernel)

    def _program(self) -> _Program:
        """Return the kernel's code. Raises DamagedInput where reading it would crash, each time it is asked for."""
        key = self._key()
        if key not in self._file.programs:
            try:
                self._file.programs[key] = _Program(self._code.sources(self._number))
            except DamagedInput as error:
                self._file.programs[key] = error
        program = self._file.programs[key]
        if isinstance(program, DamagedInput):
            raise program
        return program


def _is_source_metric(name: str) -> bool:
    return name.startswith(("smsp__pcsamp_", "inst_executed", "thread_inst_executed", "memory_", "smsp__branch_"))


def _rule(entry: Mapping[str, Any]) -> RuleResult:
    message = entry.get("rule_message") or {}
    speedup = entry.get("speedup_estimation") or {}
    scope = {1: "local", 2: "global"}.get(int(speedup.get("type", 0)))
    return RuleResult(
        rule=str(entry.get("rule_identifier", "")),
        section=str(entry.get("section_identifier", "")),
        kind=_RULE_KINDS.get(int(message.get("type", 0)), "none"),
        title=str(message.get("title", "")),
        message=str(message.get("message", "")),
        speedup_percent=float(speedup["speedup"]) if "speedup" in speedup else None,
        speedup_scope=scope,
    )
