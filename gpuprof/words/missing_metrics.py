"""The metrics that a report lacks for a kernel, and the command to collect them."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Container, Sequence
from typing import Literal, NamedTuple

from gpuprof.model.kernel_filter_regex import escaped, unique_expression
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.kernel_names import parse_name
from gpuprof.model.ncu_line import VARIABLE, arguments_of, is_ncu, option_at
from gpuprof.model.profiler_lines import FILTERS, KEPT, takes_text
from gpuprof.model.recorded import Missing
from gpuprof.model.run_totals import is_part
from gpuprof.model.session import KernelProfile, RunVerdict, Session, Source
from gpuprof.model.sources import STANDARD_INPUT, kind_named
from gpuprof.model.surveyed import ONLY_TIMES
from gpuprof.privacy.texts import clean_text

PROGRAM = "PROGRAM"
"""Placeholder for a command line that the report does not keep."""

_LONGEST = 4000
_LONGEST_NAME = 40
_SURVEYED_BY = "GPUPROF_SURVEY_BY="
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


_Option = tuple[str, str | None]
"""An option of ncu and its value, if it has one."""


class _NcuLine(NamedTuple):
    """A command line of ncu: its options with their values, and the program.

    None if the program is not clear.
    """

    options: tuple[_Option, ...]
    program: tuple[str, ...] | None


_UNKNOWN = _NcuLine((), None)


Gap = Literal["counters", "units", "stalls", "pipes"]
"""Missing data of a kernel: all counters, utilization of units and pipes, stalls."""


def gaps_of(session: Session, kernel: KernelProfile) -> tuple[Gap, ...]:
    """Return the data that the rules need and the metrics of a kernel lack."""
    source = session.sources[kernel.source]
    if (source.is_survey and not kernel.throughput) or kind_named(source.kind).is_trace:
        return ("counters",)
    known: dict[Gap, object] = {
        "units": kernel.throughput or kernel.roofline,
        "stalls": kernel.stalls,
        "pipes": kernel.pipes,
    }
    return tuple(gap for gap, values in known.items() if not values)


def without_counters(kernel: KernelProfile) -> Missing | None:
    """Return why a kernel has no counters at all; None if it has some."""
    return next((gap for gap in kernel.missing if gap.what == "counters"), None)


def _has_failed(session: Session, kernel: KernelProfile) -> bool:
    """Return whether the command that would collect counters of a kernel was tried and failed."""
    return all(source.is_survey for source in session.sources) and without_counters(kernel) not in (None, ONLY_TIMES)


def open_gaps(session: Session, verdict: RunVerdict, kernel: KernelProfile) -> tuple[Gap, ...]:
    """Return the missing data that could show more about the kernel of a verdict."""
    if verdict.case in ("at-roof", "short", "unoptimised", "void") or kernel.kind == COMMUNICATION:
        return ()
    return gaps_of(session, kernel)


def command_of(session: Session, verdict: RunVerdict) -> str | None:
    """Return the command that collects the missing data of a verdict's kernel; None if nothing is open."""
    kernel = session.numbered(verdict.kernel)
    if kernel is None:
        return None
    if has_only_set_up(session, verdict):
        return command_for_rest(session, kernel)
    if not open_gaps(session, verdict, kernel) or _has_failed(session, kernel):
        return None
    return command_for_more(session, kernel)


def has_only_set_up(session: Session, verdict: RunVerdict) -> bool:
    """Return whether nothing but set-up kernels was profiled, and no other kernel was left out."""
    return verdict.state == "set-up" and not is_part(session)


def command_for_more(session: Session, kernel: KernelProfile) -> str:
    """Return the command line that collects all metrics that the rules read of a kernel."""
    source = session.sources[kernel.source]
    if _is_timed_alone(source):
        return _gpuprof_line(session, kernel, source)
    line = _read(source.command)
    return _shell(line, _selecting(session, kernel, line), f"{_file_name(kernel)}-full")


def command_for_rest(session: Session, kernel: KernelProfile) -> str:
    """Return the command line that profiles as many launches as this report has, after those."""
    source = session.sources[kernel.source]
    if _is_timed_alone(source):
        return _gpuprof_line(session, None, source)
    line = _read(source.command)
    count = sum(other.launches for other in session.kernels if other.source == kernel.source)
    filters = _options_in(line, FILTERS)
    filters += [("launch-skip", str(_skipped(line) + count)), ("launch-count", str(max(10, count)))]
    return _shell(line, filters, "rest-full")


def _options_in(line: _NcuLine, names: Container[str]) -> list[_Option]:
    return [option for option in line.options if option[0] in names]


def _is_timed_alone(source: Source) -> bool:
    return source.is_survey or kind_named(source.kind).is_trace


def needs_program(command: str) -> bool:
    """Return whether a command contains the placeholder of a program."""
    return command.endswith(f" {PROGRAM}")


def _gpuprof_line(session: Session, kernel: KernelProfile | None, source: Source) -> str:
    """Return the command that profiles a surveyed kernel.

    A trace that the user made serves as the survey.
    """
    line = ["gpuprof", "run"]
    if not source.is_survey and _can_be_named(source.file):
        line += ["--survey", source.file]
    name = parse_name(kernel.demangled).base if kernel is not None else ""
    if kernel is not None and _IDENTIFIER.fullmatch(name):
        line += ["--kernel", unique_expression(name, kernel.demangled, (other.demangled for other in session.kernels))]
    for counted_first in sorted(session.sources, key=lambda other: other.is_survey):
        program = _program(counted_first.command)
        if program:
            return f"{shlex.join(line)} -- {shlex.join(program)}"
    return f"{shlex.join(line)} -- {PROGRAM}"


def _can_be_named(file: str) -> bool:
    """Return whether a command line can name a source: it is a file and not a used-up pipe."""
    is_pipe = file == STANDARD_INPUT or file.startswith("/dev/fd/")
    return file.isprintable() and file != "" and not file.startswith("-") and not is_pipe


def _selecting(session: Session, kernel: KernelProfile, line: _NcuLine) -> list[_Option]:
    """Return the options that select a launch by name, or by its index among selected ones."""
    beside = [other for other in session.kernels if other.source == kernel.source]
    # If a kernel's launches are not all here, its index among them is not known.
    is_whole = session.run is None
    is_single = is_whole and all(other.launches == 1 for other in beside)
    countable = is_single and len({other.process for other in beside}) == 1
    alike = is_whole and all(other.name == kernel.name for other in beside)
    before = [other for other in beside if other.id < kernel.id]
    filters = _options_in(line, FILTERS)
    skip = _skipped(line)
    # Without that index, filters that matched several kernels would select the first of them.
    if not (filters or skip) or not (countable or alike):
        skip = 0
        filters = _naming(kernel, beside, countable=countable)
        before = [other for other in before if other.name == kernel.name or not filters]
    if countable:
        skip += len(before)
    if skip:
        filters.append(("launch-skip", str(skip)))
    return [*filters, ("launch-count", "1")]


def _naming(kernel: KernelProfile, beside: Sequence[KernelProfile], *, countable: bool) -> list[_Option]:
    """Return the options that select a kernel by its name, or by parameters if it is shared."""
    name = kernel.name
    if not name.isprintable() or not 0 < len(name) <= _LONGEST:
        return []
    if not countable and any(other.name == name and other.demangled != kernel.demangled for other in beside):
        expression = unique_expression(name, kernel.demangled, [other.demangled for other in beside])
        return [("kernel-name-base", "demangled"), ("kernel-name", f"regex:{expression}")]
    if _IDENTIFIER.fullmatch(name):
        return [("kernel-name", name)]
    return [("kernel-name", f"regex:^{escaped(name)}$")]


def _shell(line: _NcuLine, chosen: Sequence[_Option], output: str) -> str:
    """Return the shell command that collects metrics of the selected launches of the program."""
    arguments = ["ncu", "--set", "full", "--import-source", "yes"]
    for name, value in (*_options_in(line, KEPT), *chosen):
        arguments.append(f"--{name}")
        if value is not None:
            arguments.append(value)
    # A program is not preceded by "--": ncu takes that for an option.
    program = shlex.join(line.program) if line.program else PROGRAM
    return f"{shlex.join([*arguments, '-o', output])} {program}"


def _file_name(kernel: KernelProfile) -> str:
    """Return a file name for a kernel.

    Clean the name before cutting it, because a cut token is not recognized.
    """
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", clean_text(kernel.name)).strip("-.")[:_LONGEST_NAME]
    return name or f"kernel-{kernel.id}"


def _skipped(line: _NcuLine) -> int:
    value = dict(line.options).get("launch-skip")
    return int(value) if value is not None and re.fullmatch(r"[0-9]{1,9}", value) else 0


def _read(command: str | None) -> _NcuLine:
    """Parse a recorded command line.

    Ncu records it without quotes, gpuprof with the quotes of a shell.
    """
    if command is None or len(command) > _LONGEST or not command.isprintable():
        return _UNKNOWN
    arguments = arguments_of(command)
    if not arguments or not is_ncu(arguments[0]):
        return _UNKNOWN
    is_quoted = "'" in command and shlex.join(arguments) == command.strip()
    options: list[_Option] = []
    place = 1
    while place < len(arguments) and arguments[place].startswith("-"):
        option = option_at(arguments, place)
        if option is None:
            return _UNKNOWN
        options.append(option[:2])
        place += option[2]
    program = tuple(arguments[place:])
    return _NcuLine(tuple(options), program if program and (is_quoted or not takes_text(program)) else None)


def _program(command: str | None) -> tuple[str, ...] | None:
    """Return the program of a recorded command line of ncu, or of a survey inside the program."""
    line = _read(command)
    if line.program is not None or command is None or not command.isprintable():
        return line.program
    if not command.startswith("env ") or _SURVEYED_BY not in command or len(command) > _LONGEST:
        return None
    try:
        _, *arguments = shlex.split(command)
    except ValueError:
        return None
    return tuple(itertools.dropwhile(VARIABLE.match, arguments)) or None
