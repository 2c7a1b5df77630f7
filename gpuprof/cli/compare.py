"""`gpuprof compare BASE NEW`: what changed between two runs and why, and a gate for CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.compare_baseline import refuse_baseline, update_baseline
from gpuprof.cli.compare_gate import (
    accepted_in_time,
    closing_line,
    gate_options,
    narrowed_in_time,
    refuse_idle,
    with_gate,
)
from gpuprof.cli.compare_measured import compare_measured, is_measured
from gpuprof.cli.compare_outputs import (
    TABLE,
    Output,
    outputs_of,
    path_maps_of,
    print_compared,
    refuse_outputs,
    repository_root,
    write_outputs,
    writing,
)
from gpuprof.cli.compare_sides import SideFiles, TakesSides, naming_sides, programs_of, sides_of
from gpuprof.cli.completion import PROGRAM
from gpuprof.cli.config import configured
from gpuprof.cli.opening import open_page, opening
from gpuprof.cli.options import excluding, overwriting, reading
from gpuprof.cli.output import say, to_type, warn
from gpuprof.errors import UsageError
from gpuprof.present.compare_options import CompareOptions

if TYPE_CHECKING:
    from gpuprof.comparison.accepted import Accepted
    from gpuprof.comparison.compare import Compared
    from gpuprof.comparison.limits import GateLimit
    from gpuprof.comparison.pairs import NamedMatch


@click.command("compare", cls=TakesSides)
@naming_sides
@excluding
@gate_options
@click.option("--update-baseline", is_flag=True, help="Copy NEW over BASE where the gate has passed.")
@writing
@reading
@overwriting
@opening
@configured("exclude", "top", "spec", "compare.fail-on", "compare.unclear", "compare.accept")
@click.pass_context
def command(context: click.Context, /, files: tuple[str, ...], **options: Any) -> int:
    """Compare two runs of a program, or two versions of it: what changed, why, and whether limits hold.

    BASE and NEW are whatever gpuprof show reads, or two NAME.measured.yaml of gpuprof characterize. Time and work have
    verdicts of their own; what the runs cannot tell is unclear. Exit code 6: a limit of --fail-on is exceeded; 7: one
    cannot be judged, with --unclear fail.
    """
    sides = _sides(context, files, options)
    if any(is_measured(file) for side in sides for file in side):
        compare_measured(*sides, options["form"])
        return 0
    return _compare(_Asked.of(sides, options))


def _sides(context: click.Context, files: Sequence[str], options: Mapping[str, Any]) -> SideFiles:
    """Return the files of both sides; of programs, those that measuring them has left."""
    base, new, budget_s = options["base"], options["new"], options["budget_s"]
    if not options["run"]:
        if budget_s is not None:
            raise UsageError("--budget is about --run, and only files were named", "leave it out")
        return sides_of(files, base, new)
    if files or base or new:
        raise UsageError("files and --run cannot be combined", "name two files, or two programs behind --run --")
    from gpuprof.cli.compare_run import measured_sides

    return measured_sides(programs_of(context.meta.get(PROGRAM, ())), budget_s)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is compared, held against limits and written."""

    sides: SideFiles
    match: tuple[NamedMatch, ...]
    kernel: str | None
    exclude: tuple[str, ...]
    limits: tuple[GateLimit, ...]
    accepted: tuple[Accepted, ...]
    unclear: str
    update: bool
    form: str
    outputs: tuple[Output, ...]
    look: CompareOptions
    verbose: bool
    spec: str | None
    salvage: bool
    force: bool
    in_browser: bool

    @classmethod
    def of(cls, sides: SideFiles, options: Mapping[str, Any]) -> _Asked:
        """Return what the options say. Raises UsageError for what they cannot say, before anything is read."""
        from gpuprof.comparison.limits import limits_of

        outputs = outputs_of(options["outputs"])
        limits = limits_of(options["fail_on"])
        asked = cls(
            sides=sides,
            match=tuple(map(_match, options["match"])),
            kernel=options["kernel"],
            exclude=options["exclude"],
            limits=limits,
            accepted=accepted_in_time(options["accept"]),
            unclear=options["unclear"],
            update=options["update_baseline"],
            form=options["form"],
            outputs=outputs,
            look=CompareOptions(options["top"], repository_root(), path_maps=path_maps_of(options["path_maps"])),
            verbose=options["verbose"],
            spec=options["spec"],
            salvage=options["salvage"],
            force=options["force"],
            in_browser=options["in_browser"],
        )
        refuse_outputs(outputs, (*sides.base, *sides.new), force=asked.force, in_browser=asked.in_browser)
        if asked.update:
            refuse_baseline(sides, limits=bool(limits), force=asked.force)
        return asked


def _match(text: str) -> NamedMatch:
    from gpuprof.comparison.pairs import NamedMatch

    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise UsageError(f"--match {text!r:.80} is not OLD=NEW", "such as --match 'gemm_v1=gemm_v2', or '#3=#5'")
    if "=" in new:
        raise UsageError(f"--match {text!r:.80} has more than one =", r"write the others as \x3d")
    return NamedMatch(old, new)


def _compare(asked: _Asked) -> int:
    """Compare, write what is asked for, and return the exit code of the gate."""
    compared = _compared(asked)
    comparison = compared.comparison
    write_outputs(compared, asked.outputs, asked.look)
    print_compared(compared, asked.form, asked.look, verbose=asked.verbose, chosen=asked.kernel is not None)
    if asked.update:
        update_baseline(asked.sides, comparison.gate, force=asked.force)
    if asked.in_browser:
        open_page(output.file for output in asked.outputs)
    if comparison.gate is not None:
        say(closing_line(comparison))
        return comparison.gate.exit_code
    if asked.form == TABLE and asked.kernel is None and comparison.kernels:
        say(f"next: {_to_compare(asked.sides)} --kernel '#{comparison.kernels[0].id}'")
    return 0


def _compared(asked: _Asked) -> Compared:
    from gpuprof._version import __version__
    from gpuprof.api import refuse_unfit, runs_of
    from gpuprof.comparison.compare import compare

    base, new = (runs_of(side, spec=asked.spec, salvage=asked.salvage) for side in asked.sides)
    for run in (*base, *new):
        warn(run.session)
    compared = compare(base, new, __version__, asked.match)
    refuse_idle(compared, asked.limits)
    compared = narrowed_in_time(compared, asked.kernel, asked.exclude)
    refuse_unfit(compared, asked.limits)
    return with_gate(compared, asked.limits, asked.accepted, asked.unclear)


def _to_compare(sides: SideFiles) -> str:
    """Return the command that compares the same files."""
    if len(sides.base) == len(sides.new) == 1:
        return f"gpuprof compare {to_type((*sides.base, *sides.new))}"
    return f"gpuprof compare --base {to_type(sides.base)} --new {to_type(sides.new)}"
