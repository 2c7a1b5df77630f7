"""Rules, source and SASS of a report's launches. Launches of one kernel share its code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from gpuprof.errors import DamagedInput
from gpuprof.model.recorded import CodeListing, EmbeddedProgram, LaunchDetails, Missing, ProfiledInstruction
from gpuprof.read.file_bytes import Bytes
from gpuprof.read.ncu_metrics import NcuMetrics
from gpuprof.read.protobuf import Malformed, fields
from gpuprof.read.source_data import InstructionPlace, SourceData
from gpuprof.read.source_reader import SourceReader
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES

_MOST_FUNCTIONS = 1000
_SOURCE_METRICS = ("smsp__pcsamp_", "inst_executed", "thread_inst_executed", "memory_", "smsp__branch_")
_REFERENCE = 1
"""Of SourceData: what results refer to it by."""
_HEAD = 16
"""The reference lies in so many first bytes."""


KernelIdentity = tuple[int | None, str, int | None]
"""What launches of one kernel share: process, mangled name, and the number of the program."""


class _Program(Struct, frozen=True):
    """What is known of a kernel's code. All launches of the kernel in a process have the same."""

    sources: Mapping[str, str]
    places: dict[int, InstructionPlace] = field(default_factory=dict)


SharedCode = dict[tuple[int | None, str], _Program | DamagedInput]
"""What was read of the code of kernels, by process and mangled name, or why it cannot be."""


class EmbeddedPrograms:
    """The programs that a report embeds: `spans` are where they lie in it."""

    def __init__(self, data: Bytes, spans: Sequence[tuple[int, int]]) -> None:
        self._data = data
        self._spans = spans
        self._sources: dict[int, SourceData | DamagedInput | None] = {}

    def source(self, reference: int | None) -> SourceData | None:
        """Return a program by the number that launches refer to it by; None where it is not there, or damaged."""
        try:
            return self.whole(reference)
        except DamagedInput:
            return None

    def whole(self, reference: int | None) -> SourceData | None:
        """Return the parsed message. Raises DamagedInput if it does not parse."""
        if reference is None:
            return None
        if reference not in self._sources:
            self._sources[reference] = self._read(reference)
        source = self._sources[reference]
        if isinstance(source, DamagedInput):
            raise source
        return source

    def _read(self, reference: int) -> SourceData | DamagedInput | None:
        """Read the messages of a program one behind another: what one begins, others add to."""
        messages = [self._data[slice(*span)] for span in self._places.get(reference, ())]
        try:
            return SourceData(b"".join(messages)) if messages else None
        except DamagedInput as error:
            return error

    @cached_property
    def _places(self) -> dict[int, list[tuple[int, int]]]:
        places: dict[int, list[tuple[int, int]]] = {}
        for start, end in self._spans:
            reference = reference_of(self._data[start : min(end, start + _HEAD)])
            if reference is not None:
                places.setdefault(reference, []).append((start, end))
        return places


class NcuDetails(LaunchDetails, frozen=True):
    """Source and SASS of one launch. `reference` is the number of its program; None where it has none."""

    metrics: NcuMetrics
    programs: EmbeddedPrograms
    code: SourceReader
    shared: SharedCode
    process: int | None
    mangled: str
    reference: int | None

    def source_files(self) -> Mapping[str, str]:
        """Return embedded source text by file name. Raises DamagedInput for a program that does not parse."""
        return self._program().sources

    def instructions(self, counts: tuple[str, ...] | None = None) -> tuple[ProfiledInstruction, ...]:
        """Return the SASS in address order with the named counts (None: all recorded) of each instruction."""
        names = counts if counts is not None else tuple(filter(_is_source_metric, self.metrics.names()))
        recorded = self._counted(names)
        return self._instructions(recorded, recorded)

    def listing(self, counts: tuple[str, ...]) -> CodeListing:
        """Return every instruction of the kernel, counted or not, and those counted in functions that it calls.

        Where it is not known where the kernel begins, what was counted is all there is.
        """
        recorded, size = self._counted(counts), len(self.machine_code())
        start = self.code_start()
        own = range(start, start + size, INSTRUCTION_BYTES) if start is not None else ()
        if not recorded and not own:
            return CodeListing()
        source = self._source()
        symbols = {address: symbol for symbol, address in source.starts.items()} if source is not None else {}
        starts = {*function_addresses(self.metrics), *([start] if start is not None else [])}
        functions = {address: self.mangled if address == start else symbols.get(address, "") for address in starts}
        return CodeListing(start, functions, self._instructions(recorded, {*recorded, *own}))

    def _counted(self, names: Iterable[str]) -> dict[int, dict[str, float]]:
        """Return the counts of each instruction that has any of these."""
        recorded: dict[int, dict[str, float]] = {}
        for name in names:
            for pc, value in (self.metrics.instances(name) or {}).items():
                if isinstance(pc, int):
                    recorded.setdefault(pc, {})[name] = value
        return recorded

    def _instructions(
        self, recorded: Mapping[int, Mapping[str, float]], pcs: Iterable[int]
    ) -> tuple[ProfiledInstruction, ...]:
        """Return the instructions at these addresses, in their order."""
        program, ordered = self._program(), sorted(pcs)
        unknown = [pc for pc in ordered if pc not in program.places]
        if unknown:
            program.places.update(self.code.places(self.metrics.number_in_report, unknown))
        places = ((pc, *program.places[pc]) for pc in ordered)
        return tuple(
            ProfiledInstruction(pc, sass, file, line=at, counts=recorded.get(pc, {})) for pc, sass, file, at in places
        )

    def machine_code(self) -> bytes:
        """Return the kernel's machine code; empty where the report embeds none or it is damaged."""
        source = self._source()
        code = source.function(self.mangled) if source is not None else None
        return code.code if code is not None else b""

    def program(self) -> EmbeddedProgram | None:
        """Return the cubin that the kernel is in; None where the report embeds none. Launches of it share the bytes."""
        source = self._source()
        cubin = source.cubin if source is not None else None
        return EmbeddedProgram(self.mangled, cubin) if cubin is not None else None

    def _source(self) -> SourceData | None:
        return self.programs.source(self.reference)

    def code_start(self) -> int | None:
        """Return the kernel's address; None if neither its program nor the launch has it."""
        source, listed = self._source(), function_addresses(self.metrics)
        start = source.starts.get(self.mangled) if source is not None else None
        return start if start is not None or len(listed) != 1 else listed[0]

    def code_gaps(self) -> tuple[Missing, ...]:
        """Return what is missing of the kernel's code, with reasons. Raises DamagedInput as `instructions` does."""
        return self.code.gaps(self.metrics.number_in_report)

    def _program(self) -> _Program:
        """Return the kernel's code. Raises DamagedInput where it does not parse, each time it is asked for."""
        key = (self.process, self.mangled)
        if key not in self.shared:
            try:
                sources = self.code.sources(self.metrics.number_in_report)
                self.shared[key] = _Program(sources)
            except DamagedInput as error:
                self.shared[key] = error
        program = self.shared[key]
        if isinstance(program, DamagedInput):
            raise program
        return program


def function_addresses(metrics: NcuMetrics) -> tuple[int, ...]:
    """Return the addresses of the functions of a launch, as far as they are listed."""
    return metrics.addresses("launch__function_pcs")[:_MOST_FUNCTIONS]


def reference_of(source: bytes) -> int | None:
    """Return the number of a program, which begins its SourceData and that in the message of a launch."""
    try:
        numbers = (value for key, value, _ in fields(source, 0) if key == _REFERENCE and isinstance(value, int))
        return next(numbers, None)
    except Malformed:
        return None


def alike(launches: Iterable[KernelIdentity]) -> list[int]:
    """Return for each launch the first one of the same kernel."""
    first: dict[KernelIdentity, int] = {}
    return [first.setdefault(launch, number) for number, launch in enumerate(launches)]


def _is_source_metric(name: str) -> bool:
    return name.startswith(_SOURCE_METRICS)
