"""`gpuprof compare BASE NEW`: what changed between two runs and why, and a gate for CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.compare_baseline import refuse_baseline, refuse_part, update_baseline
from gpuprof.cli.compare_gate import (
    accepted_in_time,
    closing_line,
    gate_options,
    keeping_exit_code,
    match_in_time,
    narrowed_in_time,
    refuse_idle,
    refuse_without_limits,
    say_result,
    tell_unused,
    with_gate,
)
from gpuprof.cli.compare_measured import compare_measured, is_measured
from gpuprof.cli.compare_outputs import (
    Output,
    outputs_of,
    print_product,
    refuse_outputs,
    write_outputs,
    writing,
)
from gpuprof.cli.compare_sides import SideFiles, TakesSides, naming_sides, programs_of, sides_of
from gpuprof.cli.completion import PROGRAM
from gpuprof.cli.config import configured
from gpuprof.cli.opening import open_page, opening
from gpuprof.cli.options import excluding, keeping, overwriting, path_maps_of, reading
from gpuprof.cli.output import say, to_type, warn
from gpuprof.cli.profiling import refuse_without_program, timing_options
from gpuprof.collect.shell import shell_line
from gpuprof.errors import UsageError
from gpuprof.privacy.source_files import PathMap, repository_root
from gpuprof.views.formats import TABLE, formats_of
from gpuprof.views.options import WriteOptions

if TYPE_CHECKING:
    from gpuprof.comparison.compare import Compared
    from gpuprof.comparison.contract import Comparison
    from gpuprof.comparison.gate.accepted import Accepted
    from gpuprof.comparison.gate.limits import GateLimit
    from gpuprof.comparison.pair import NamedMatch
    from gpuprof.comparison.sides import Run


@click.command("compare", cls=TakesSides)
@naming_sides
@excluding
@gate_options
@click.option("--update-baseline", is_flag=True, help="Copy NEW over BASE where the gate has passed.")
@writing
@timing_options
@reading
@keeping
@overwriting
@opening
@configured("exclude", "top", "spec", "set", "coverage", "compare.fail-on", "compare.unclear", "compare.accept")
@click.pass_context
def command(context: click.Context, /, files: tuple[str, ...], **options: Any) -> int:
    """Compare two runs of a program, or two versions of it: what changed, why, and whether limits hold.

    BASE and NEW are whatever gpuprof show reads, or two NAME.measured.yaml of gpuprof characterize. Time and work have
    verdicts of their own; what the runs cannot tell is unclear. Exit code 6: a limit of --fail-on is exceeded; 7: one
    cannot be judged, with --unclear fail. The options from --set to --timeout apply to --run.
    """
    if options["run"]:
        return _measured(context, files, options)
    refuse_without_program(context)
    if options["budget_s"] is not None:
        raise UsageError("--budget is about --run, and only files were named", "leave it out")
    sides = sides_of(files, options["base"], options["new"])
    if any(is_measured(file) for side in sides for file in side):
        compare_measured(*sides, options["form"])
        return 0
    return _compare(_Asked.of(sides, options))


def _measured(context: click.Context, files: Sequence[str], options: Mapping[str, Any]) -> int:
    """Measure two programs and compare what that has left; return the exit code, of what went wrong or of the gate."""
    if files or options["base"] or options["new"]:
        raise UsageError("files and --run cannot be combined", "name two files, or two programs behind --run --")
    from gpuprof.cli.compare_run import measured_sides, programs_to_run, refuse_measured_places

    to_run = programs_to_run(programs_of(context.meta.get(PROGRAM, ())), options)
    asked = _Asked.of(SideFiles((), ()), {**options, "outputs": to_run.outputs})
    refuse_measured_places([output.file for output in asked.outputs], to_run.folder)
    measured = measured_sides(to_run, lambda base, new: _so_far(base, new, asked))
    # What is excluded is in no session.
    code = _compare(replace(asked, sides=measured.sides, exclude=(), paired=True))
    return measured.exit_code(code)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is compared, checked against limits and written."""

    sides: SideFiles
    match: tuple[NamedMatch, ...]
    kernels: tuple[str, ...]
    exclude: tuple[str, ...]
    limits: tuple[GateLimit, ...]
    accepted: tuple[Accepted, ...]
    unclear: str
    update: bool
    form: str
    outputs: tuple[Output, ...]
    look: WriteOptions
    verbose: bool
    spec: str | None
    salvage: bool
    keep_private: bool
    path_maps: tuple[PathMap, ...]
    force: bool
    in_browser: bool
    paired: bool = False

    @classmethod
    def of(cls, sides: SideFiles, options: Mapping[str, Any]) -> _Asked:
        """Return what the options say. Raises UsageError for what they cannot say, before anything is read."""
        from gpuprof.comparison.gate.limits import limits_of

        outputs = outputs_of(options["outputs"])
        path_maps = path_maps_of(options["path_maps"])
        limits = limits_of(options["fail_on"])
        refuse_without_limits(limits, options["unclear"])
        asked = cls(
            sides=sides,
            match=tuple(map(_match, options["match"])),
            kernels=options["kernels"],
            exclude=options["exclude"],
            limits=limits,
            accepted=accepted_in_time(options["accept"]),
            unclear=options["unclear"],
            update=options["update_baseline"],
            form=options["form"],
            outputs=outputs,
            # Cleaning shortens paths to the repository, so path maps apply before it.
            look=WriteOptions(options["top"], repository_root(), path_maps if options["keep_private"] else ()),
            verbose=options["verbose"],
            spec=options["spec"],
            salvage=options["salvage"],
            keep_private=options["keep_private"],
            path_maps=path_maps,
            force=options["force"],
            in_browser=options["in_browser"],
        )
        refuse_outputs(outputs, (*sides.base, *sides.new), force=asked.force, in_browser=asked.in_browser)
        if asked.update:
            refuse_part(part=bool(asked.kernels), salvage=asked.salvage)
            refuse_baseline(sides, limits=bool(limits), force=asked.force)
        return asked


def _match(text: str) -> NamedMatch:
    from gpuprof.comparison.pair import NamedMatch

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
    write_outputs(compared, dict(asked.outputs), asked.look)
    with keeping_exit_code(comparison.gate):
        print_product(
            compared,
            formats_of("comparison")[asked.form],
            asked.look,
            verbose=asked.verbose,
            chosen=bool(asked.kernels),
        )
    if asked.update:
        update_baseline(asked.sides, comparison.gate, force=asked.force)
    if asked.in_browser:
        open_page(output.file for output in asked.outputs)
    if comparison.gate is not None:
        say_result(closing_line(compared))
        return comparison.gate.exit_code
    if asked.form == TABLE and not asked.kernels and not asked.paired:
        _tell_next(asked, comparison)
    return 0


def _tell_next(asked: _Asked, comparison: Comparison) -> None:
    """Say how the first kernel that both sides have and that is not the same is shown in depth; nothing without one."""
    from gpuprof.words.comparison_rows import changed_rows

    first = next((change for change in changed_rows(comparison.kernels) if change.base and change.new), None)
    if first is not None:
        say(f"next: {_to_compare(asked)} --kernel '#{first.id}'")


def _compared(asked: _Asked) -> Compared:
    from gpuprof._version import __version__
    from gpuprof.api_compare import refuse_one_run, refuse_unfit, runs_of, worded
    from gpuprof.comparison.compare import compare

    refuse_one_run(*asked.sides)
    base, new = (
        runs_of(
            side,
            spec=asked.spec,
            salvage=asked.salvage,
            keep_private=asked.keep_private,
            path_maps=asked.path_maps,
        )
        for side in asked.sides
    )
    for run in (*base, *new):
        warn(run.session)
    match_in_time(base, new, asked.match)
    compared = compare(base, new, __version__, asked.match, paired=asked.paired)
    refuse_idle(compared, asked.limits)
    tell_unused(compared, asked.kernels, asked.exclude)
    compared = narrowed_in_time(compared, asked.kernels, asked.exclude)
    refuse_unfit(compared, asked.limits)
    return worded(with_gate(compared, asked.limits, asked.accepted, asked.unclear))


def _so_far(base: Sequence[Run], new: Sequence[Run], asked: _Asked) -> Compared:
    """Compare the runs that were measured so far, of the kernels that are asked for."""
    from gpuprof._version import __version__
    from gpuprof.comparison.compare import compare

    compared = compare(base, new, __version__, asked.match, paired=True)
    refuse_idle(compared, asked.limits)
    return narrowed_in_time(compared, asked.kernels, ())


def _to_compare(asked: _Asked) -> str:
    """Return the command that compares the same files as this one does."""
    base, new = asked.sides
    files = to_type((*base, *new)) if len(base) == len(new) == 1 else f"--base {to_type(base)} --new {to_type(new)}"
    options = [part for pair in asked.match for part in ("--match", f"{pair.base}={pair.new}")]
    options += [part for text in asked.exclude for part in ("--exclude", text)]
    options += ["--spec", asked.spec] if asked.spec is not None else []
    options += ["--salvage"] if asked.salvage else []
    options += ["--keep-private"] if asked.keep_private else []
    return " ".join(("gpuprof compare", files, *([shell_line(options)] if options else [])))
