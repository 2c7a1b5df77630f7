"""`gpuprof show FILE…`: the terminal view, or the same values as JSON, CSV or Markdown; `--explain` for one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.by import grouping, print_by
from gpuprof.cli.config import configured
from gpuprof.cli.help import WithExamples
from gpuprof.cli.options import (
    AboveZero,
    choosing,
    excluding,
    format_option,
    input_files,
    keeping,
    mapping_paths,
    path_maps_of,
    reading,
    refuse_beside,
    was_typed,
)
from gpuprof.cli.output import print_product, say, to_show, warn, write_lines
from gpuprof.cli.same_program import point_to_compare
from gpuprof.cli.select import SORT_KEYS, kept, next_look, select_kernels, sort_kernels, tell_excluded
from gpuprof.errors import UsageError
from gpuprof.views.formats import TABLE, formats_of

if TYPE_CHECKING:
    from gpuprof.api import Loaded
    from gpuprof.model.analyse import Recorded
    from gpuprof.model.session import KernelProfile, Session
    from gpuprof.privacy.source_files import PathMap
    from gpuprof.views.profile import Depth

_TOP = 20


@click.command("show", cls=WithExamples)
@input_files
@format_option("session")
@grouping
@click.option(
    "--sort", type=click.Choice(sorted(SORT_KEYS)), default="time", show_default=True, help="Order of the kernels."
)
@click.option(
    "--explain",
    metavar="REGEX|#N",
    help="Why one kernel takes its time, as a tree: issue slots, warps, stall reasons, causes, findings, lines.",
)
@click.option(
    "--sass",
    metavar="REGEX|#N",
    help="The machine code of one kernel, with samples, stall reasons and counters at each instruction.",
)
@click.option(
    "--items-per-step",
    type=AboveZero(),
    metavar="N",
    help="Tokens or samples in a step of a timeline: gives their rate.",
)
@click.option(
    "--cost-per-hour",
    type=AboveZero(),
    metavar="AMOUNT",
    help="Price of the machine: gives the cost of a million items.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also the longest kernel in depth, the timeline and provenance.")
@choosing
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="N",
    help="Rows of the table; 0 for all. Default: as many as 30 lines leave, 20 with -v, --kernel or md.",
)
@mapping_paths
@excluding
@reading
@keeping
@configured("exclude", "top", "spec")
def command(files: tuple[str, ...], spec: str | None, salvage: bool, exclude: tuple[str, ...], **options: Any) -> None:
    """Print what to fix first, and the kernels that take most time; with -v or --kernel everything about a kernel.

    FILE is a .ncu-rep or .ncu-repz, what ncu prints (raw or details page), a session.json, a page of gpuprof report
    (.html), a PyTorch trace, an SQLite export of Nsight Systems, or - for any of these on standard input; a folder
    means the traces of one run's ranks in it. Several reports are shown as one run, equal launches as one kernel; JSON
    and CSV have every launch.
    """
    from gpuprof.api import load_recorded

    asked = _Asked(**{**options, "path_maps": path_maps_of(options["path_maps"])})
    _refuse_contradictions(asked)
    read = partial(
        load_recorded,
        *files,
        spec=spec,
        salvage=salvage,
        keep_private=asked.keep_private,
        path_maps=asked.path_maps,
    )
    loaded = _loaded(read, files, asked, exclude)
    session = kept(loaded.session, exclude)
    _refuse_items_without_steps(session, asked)
    point_to_compare(session, files)
    if asked.explain is not None:
        _explain(session, asked.explain, asked.form, files)
    elif asked.sass is not None:
        _list_code(session, loaded.recorded, asked, files)
    elif asked.by is not None:
        print_by(*_kernels(session, asked.kernels), asked.by, asked.form, asked.top, files)
    elif formats_of("session")[asked.form].report:
        _report(*_kernels(session, asked.kernels), asked)
    elif asked.writes_launches:
        _write_launches(session, sort_kernels(select_kernels(session, asked.kernels), asked.sort), asked.form)
    else:
        _show(session, files, asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be shown, and how."""

    form: str
    by: str | None
    sort: str
    explain: str | None
    sass: str | None
    items_per_step: float | None
    cost_per_hour: float | None
    verbose: bool
    keep_private: bool
    path_maps: tuple[PathMap, ...]
    kernels: tuple[str, ...]
    top: int | None

    @property
    def rows(self) -> int:
        """Return how many rows a table has that is not cut to a screen; 0 for all."""
        return _TOP if self.top is None else self.top

    @property
    def is_overview(self) -> bool:
        """Tell whether no kernels are named, nor their order: a trace is then shown by operator."""
        return not self.kernels and self.sort == "time"

    @property
    def writes_launches(self) -> bool:
        """Return whether the format has every launch."""
        return formats_of("session")[self.form].launches

    @property
    def groups(self) -> bool:
        """Tell whether equal launches are one kernel: not where each is written."""
        return not self.writes_launches or self.by is not None or self.of_one is not None

    @property
    def numbers(self) -> set[int]:
        """Return the numbers by which kernels or launches are named."""
        return _numbers(self.kernels if self.of_one is None else (self.of_one[1],))

    @property
    def of_one(self) -> tuple[str, str] | None:
        """Return the option that shows one kernel, and how it names that."""
        options = (("--explain", self.explain), ("--sass", self.sass))
        return next(((option, pattern) for option, pattern in options if pattern is not None), None)

    @property
    def depth(self) -> Depth:
        """Return which kernels are shown with all their figures and findings."""
        return "all" if self.kernels else "longest" if self.verbose else "none"


def _loaded(read: Callable[..., Loaded], files: Sequence[str], asked: _Asked, exclude: Sequence[str]) -> Loaded:
    """Return what the files hold: every launch only where each is written, or one that does not speak for its kind.

    Of thousands of launches, groups are read in a part of the time, and most numbers that are asked for are of groups.
    """
    from gpuprof.read.files import can_be_read_again

    if not asked.numbers:
        return read(groups=asked.groups)
    of_launches = not asked.groups or bool(_numbers(exclude))
    if not of_launches and all(map(can_be_read_again, files)):
        loaded = read(groups=True)
        if all(_is_there(number, loaded.session) for number in asked.numbers):
            return loaded
    return read()


def _is_there(number: int, session: Session) -> bool:
    """Tell whether a kernel has a number, or whether there is no launch beside the kernels that could have it."""
    if any(kernel.id == number for kernel in session.kernels):
        return True
    return session.only_times or all(kernel.launches == 1 for kernel in session.kernels)


def _refuse_contradictions(asked: _Asked) -> None:
    """Raise UsageError for options that mean nothing together."""
    if asked.cost_per_hour is not None and asked.items_per_step is None:
        raise UsageError("--cost-per-hour needs to know what is paid for", "add --items-per-step N")
    of_kernels = {"--sort": asked.sort != "time"}
    of_screen = {"--items-per-step": asked.items_per_step is not None, "-v": asked.verbose}
    of_table = {"--top": asked.top not in (None, 0) and was_typed("top")}
    is_report = bool(formats_of("session")[asked.form].report)
    of_findings = {f"--format {asked.form}": is_report}
    if asked.by is not None:
        refuse_beside(
            "--by",
            {
                "--explain": asked.explain is not None,
                "--sass": asked.sass is not None,
                **of_findings,
                **of_kernels,
                **of_screen,
            },
        )
    if asked.explain is not None:
        refuse_beside("--explain", {"--sass": asked.sass is not None})
    if asked.of_one is not None:
        option = asked.of_one[0]
        has_format = option != "--explain" or asked.form in formats_of("explanation")
        if asked.kernels or not has_format:
            wrong = "--kernel" if asked.kernels else f"--format {asked.form}"
            raise UsageError(f"{option} and {wrong} cannot be combined", f"{option} KERNEL names the kernel itself")
        if option == "--sass":
            del of_screen["-v"]
        refuse_beside(option, {**of_findings, **of_kernels, **of_screen, **of_table})
    elif is_report:
        refuse_beside(f"--format {asked.form}", {**of_kernels, **of_screen, **of_table})
    elif asked.form != TABLE:
        every_launch = of_table if not asked.groups else {}
        refuse_beside(f"--format {asked.form}", {**of_screen, **every_launch})


def _refuse_items_without_steps(session: Session, asked: _Asked) -> None:
    """Raise UsageError where items are counted by steps, and no loop of steps with a rate was recorded."""
    steps = session.timeline.steps if session.timeline is not None else ()
    if asked.items_per_step is not None and not any(step.loop and step.per_s is not None for step in steps):
        raise UsageError(
            "--items-per-step: no steps were recorded whose rate is known",
            "PyTorch traces and exports of Nsight Systems can have some",
        )


def _show(session: Session, files: Sequence[str], asked: _Asked) -> None:
    """Print the kernels that are asked for, in the terminal or as lines."""
    from gpuprof.diagnose.summary import chosen
    from gpuprof.model.time_by import first_times
    from gpuprof.views.terminal import make_console
    from gpuprof.words.session import worded
    from gpuprof.words.timeline import Rates

    run, selected = _kernels(session, asked.kernels)
    kernels = sort_kernels(selected, asked.sort)
    part = worded(chosen(run, selected)) if asked.kernels else run
    times = first_times(run, selected) if asked.is_overview else None
    form = formats_of("session")[asked.form]
    if form.warns:
        warn(session)
    if asked.form != TABLE:
        write_lines(form.write(part, kernels, asked.rows, times))
        return
    rates = Rates(asked.items_per_step, asked.cost_per_hour)
    form.write(make_console(), part, kernels, times=times, top=asked.top, depth=asked.depth, rates=rates)
    if kernels:
        option = "--kernel" if asked.depth == "none" else "--explain"
        say(f"next: {to_show(files)} {next_look(part, kernels, asked.sort, option)}")


def _report(run: Session, selected: Sequence[KernelProfile], asked: _Asked) -> None:
    """Print the findings of the kernels that are asked for, and say which have no line of the repository."""
    from gpuprof.diagnose.summary import chosen
    from gpuprof.privacy.source_files import repository_root
    from gpuprof.views.options import WriteOptions
    from gpuprof.words.session import worded

    part = worded(chosen(run, selected)) if asked.kernels else run
    form = formats_of("session")[asked.form]
    # Cleaning has shortened paths to the repository, by the path maps.
    options = WriteOptions(root=repository_root(), path_maps=asked.path_maps if asked.keep_private else ())
    if form.warns:
        warn(run)
        tell_excluded(run)
    write_lines(form.lines(part, options))
    for text in form.notes(part, options):
        say(f"note: {text}")


def _kernels(session: Session, patterns: Sequence[str]) -> tuple[Session, list[KernelProfile]]:
    """Return the session with equal launches as one kernel, and the kernels that are asked for.

    `#N` may also name a launch that another one of its kind speaks for: then all that are asked for are launches.
    """
    from gpuprof.diagnose.summary import grouped
    from gpuprof.words.session import worded

    groups = worded(grouped(session))
    are_groups = _numbers(patterns) <= {kernel.id for kernel in groups.kernels}
    return groups, select_kernels(groups if are_groups else session, patterns)


def _numbers(patterns: Sequence[str]) -> set[int]:
    from gpuprof.model.kernel_match import kernel_number

    return {number for number in map(kernel_number, patterns) if number is not None}


def _write_launches(session: Session, kernels: Sequence[KernelProfile], name: str) -> None:
    from gpuprof.diagnose.summary import chosen
    from gpuprof.words.session import worded

    form = formats_of("session")[name]
    if form.warns:
        warn(session)
        tell_excluded(session)
    write_lines(form.write(worded(chosen(session, kernels))))


def _explain(session: Session, pattern: str, name: str, files: Sequence[str]) -> None:
    """Print the tree of the longest kernel that matches, and say how many others there are."""
    from gpuprof.model.sources import kind_named
    from gpuprof.words.explain import explain

    kernel = _one_kernel(session, "--explain", pattern, "explained")
    tree = explain(kernel, from_text=kind_named(session.sources[kernel.source].kind).is_text)
    form = formats_of("explanation")[name]
    if form.warns:
        warn(session)
    print_product("explanation", name, session, kernel, tree)
    if name == TABLE:
        say(f"next: {to_show(files)} --kernel '#{kernel.id}'")


def _list_code(session: Session, recorded: Mapping[int, Recorded], asked: _Asked, files: Sequence[str]) -> None:
    """Print the machine code of the longest kernel that matches, and say how many others there are."""
    from gpuprof.api import listing_in

    assert asked.sass is not None
    kernel = _one_kernel(session, "--sass", asked.sass, "shown")
    listing = listing_in(session, kernel, recorded, keep_private=asked.keep_private)
    form = formats_of("listing")[asked.form]
    if form.warns:
        warn(session)
    print_product("listing", asked.form, session, kernel, listing, asked.verbose)
    if asked.form == TABLE:
        say(f"next: {to_show(files)} --explain '#{kernel.id}'")


def _one_kernel(session: Session, option: str, pattern: str, done: str) -> KernelProfile:
    """Return the longest kernel that matches; where others do, too, that is said on stderr."""
    from gpuprof.model.headline import by_time
    from gpuprof.words.profile_values import count_text, row_noun

    try:
        run, matching = _kernels(session, (pattern,))
        longest_first = by_time(matching)
    except UsageError as error:
        raise UsageError(error.message.replace("--kernel", option, 1), error.hint) from error
    kernel = longest_first[0]
    if len(longest_first) > 1:
        rows = count_text(len(longest_first), *row_noun(run.kernels))
        say(f"{rows} match: #{kernel.id} {kernel.label} is {done}, the longest; pick one with '#N'")
    return kernel
