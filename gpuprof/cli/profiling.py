"""What `run` and `roofline` share: options on how a program is profiled, and what is printed while it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from gpuprof.cli import completion
from gpuprof.cli.endings import refuse_ending
from gpuprof.cli.help import ARGUMENTS
from gpuprof.cli.ncu_options import HIDDEN, ProfilingOption, option, take_hidden
from gpuprof.cli.output import say, to_type
from gpuprof.collect.choices import DRY_ARCH, CacheControl, ClockControl, GraphProfiling, ReplayMode
from gpuprof.collect.counter_sets import DEFAULT, SET_NAMES
from gpuprof.errors import Interrupted, UsageError, hinted

if TYPE_CHECKING:
    from gpuprof.collect.events import ProfileEvent
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.pipeline import ProfileOutcome

    _Choice = click.Choice[str]
else:
    # Click 8.1 has no choices of a type.
    _Choice = click.Choice

_ALONE = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[aiLmsux]+\)|P|\()|\\[1-9])")
"""What of an expression means something else beside others: flags for all of it, names and numbers of groups."""


class _Percent(click.FloatRange):
    """A share in percent, as a fraction."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return 0.95 for 95."""
        return float(super().convert(value, param, ctx)) / 100


class _Auto(_Choice):
    """auto or off, as a bool."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return whether it is not off."""
        return super().convert(value, param, ctx) != "off"


_OPTIONS = (
    option("--set", "counters", type=click.Choice(list(SET_NAMES)), default=DEFAULT, show_default=True,
           help="Counters to collect: none, for rooflines, for the diagnosis, or all that ncu's full set has as well."),
    option("--range", "ranges", ncu=["--nvtx-include"], multiple=True, metavar="NVTX",
           help="Profile only inside this NVTX range. Repeatable."),
    option("--coverage", type=_Percent(0, 100, min_open=True), default=95, show_default=True, metavar="PERCENT",
           help="Profile the kernels that take this share of the GPU time."),
    option("--samples", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
           help="Launches to profile of each kernel."),
    option("--launch-skip", ncu=["-s"], type=click.IntRange(min=0), default=0, metavar="N",
           help="Skip this many launches. Makes no survey."),
    option("--launch-count", ncu=["-c"], type=click.IntRange(min=1), metavar="N",
           help="Profile this many launches. Makes no survey."),
    option("--survey", default="auto", show_default=True, metavar="auto|torch|nsys|cupti|ncu|FILE",
           shell_complete=completion.survey_sources,
           help="What times the kernels in the first run; or a .ncu-rep, .ncu-repz, PyTorch trace or .sqlite of Nsight "
                "Systems to plan by, without that run."),
    option("--peers", is_flag=True, help="Include kernels that wait for another rank, such as NCCL's."),
    option("--plan-only", is_flag=True, help="Stop after the survey and print the plan."),
    option("--dry-run", is_flag=True, help="Print the commands and run none."),
    option("--arch", metavar="sm_XX",
           help=f"Collect the counters of this architecture. Default of --dry-run: {DRY_ARCH}."),
    option("--ncu", metavar="PATH", shell_complete=completion.any_file,
           help="Use this ncu. Default: the newest that the driver supports."),
    option("--clock-control", type=click.Choice(get_args(ClockControl)), default="none", show_default=True,
           help="Whether ncu locks the clocks."),
    option("--cache-control", type=click.Choice(get_args(CacheControl)), default="all", show_default=True,
           help="Which caches ncu flushes before each pass."),
    option("--replay", "replay_mode", ncu=["--replay-mode"], type=click.Choice(get_args(ReplayMode)), default="kernel",
           show_default=True, help="What is repeated for each pass: the kernel, or the whole program."),
    option("--graphs", ncu=["--graph-profiling"], type=click.Choice(get_args(GraphProfiling)), default="node",
           show_default=True, help="Profile each kernel of a CUDA graph, or the graph as one."),
    option("--annotate", type=_Auto(["auto", "off"]), default="auto", show_default=True,
           help="Name kernels by PyTorch modules and operators."),
    option("--ranks", default="0", show_default=True, metavar="N|all",
           help="Rank to profile where the program starts several (torchrun, mpirun, srun), or all."),
    option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
           help="End each run of the program after this time."),
    *HIDDEN,
)  # fmt: skip
_OF_COMMAND = ("plan_only", "dry_run")


_OF_ONE_PROFILE = ("launch_skip", "launch_count", *_OF_COMMAND)
"""Options that a program is not timed again and again with: they make no survey, or no result."""


def timing_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add these options but for those of a single profile: `profiling` makes a request, as below."""
    wrapped: Any = profiling_options(function)
    wrapped.__click_params__[:] = [param for param in wrapped.__click_params__ if param.name not in _OF_ONE_PROFILE]
    return wrapped  # type: ignore[no-any-return]


def profiling_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options on how a program is profiled: `profiling` makes a request of them, with what else it is given.

    Whether it is profiled at all, the command gets as `plan_only` and `dry_run`.
    """

    @wraps(function)
    def command(**values: object) -> object:
        from gpuprof.collect.request import ProfileRequest

        take_hidden(values)
        asked = {name: values.pop(name) for name in names if name in values and name not in _OF_COMMAND}
        asked["kernel_base"] = values.pop("kernel_base")
        return function(profiling=partial(ProfileRequest, **asked), **values)  # type: ignore[arg-type]

    wrapped: Any = command
    before = len(getattr(command, "__click_params__", ()))
    for add in reversed(_OPTIONS):
        wrapped = add(wrapped)
    names = [param.name for param in wrapped.__click_params__[before:]]
    return wrapped  # type: ignore[no-any-return]


def refuse_file(word: str) -> None:
    """Raise UsageError for a program that is a report or another file to read."""
    from gpuprof.read.recognise import recognised

    what = recognised(word)
    if what is not None:
        raise UsageError(f"{word} is {what}, not a program", f"gpuprof show {to_type([word])}")


def refuse_folder(folder: Path | None) -> None:
    """Raise UsageError for a folder with the name of a file: a run leaves several."""
    if folder is not None:
        hint = f"name a folder: -o {str(folder).removesuffix(folder.suffix)}"
        refuse_ending(folder, (), "a profiled program leaves several files", hint)


def note_passed_on(ctx: click.Context, program: Sequence[str]) -> None:
    """Say so where the program gets options that this command has, too, and no -- shows that it is to have them."""
    names = {name for param in ctx.command.params for name in param.opts if name.startswith("--")}
    passed = [word for word in program[1:] if word.partition("=")[0] in names]
    if passed and "--" not in ctx.meta.get(ARGUMENTS, ()):
        option = passed[0].partition("=")[0]
        say(f"note: {option} is passed to {program[0]}; options of gpuprof stand before the program")


def refuse_without_program(ctx: click.Context) -> None:
    """Raise UsageError for options on how a program is profiled, where there is none."""
    for param in ctx.command.params:
        given = ctx.get_parameter_source(param.name or "") == click.core.ParameterSource.COMMANDLINE
        if given and isinstance(param, ProfilingOption):
            message = f"{max(param.opts, key=len)} is about profiling a program, and only files were named"
            by_name = "--kernel REGEX picks kernels of a report"
            raise UsageError(message, by_name if param.name == "kernel_name" else "leave it out")


def without_result(*, plan_only: bool, dry_run: bool) -> str | None:
    """Return the option that asks for no result; None where a program is to be profiled."""
    return "--dry-run" if dry_run else "--plan-only" if plan_only else None


def expression_of(kernels: Sequence[str]) -> str | None:
    """Return the expression for what any of the texts after --kernel names.

    Raises UsageError for a number, and for one of several that is no expression or means something else beside others.
    """
    for text in kernels:
        if re.fullmatch(r"#\d+", text):
            message = f"--kernel {text} numbers a kernel of a report"
            raise UsageError(message, "name kernels to profile: --kernel REGEX")
        if len(kernels) > 1:
            _refuse_beside_others(text)
    return "|".join(f"(?:{text})" for text in kernels) if len(kernels) > 1 else next(iter(kernels), None)


def _refuse_beside_others(text: str) -> None:
    from gpuprof.model.kernel_match import kernel_pattern

    kernel_pattern(text, "--kernel")
    if _ALONE.search(text):
        raise UsageError(
            f"--kernel {text!r:.80}: flags and references to groups hold for a whole expression",
            "give one --kernel with | between the names",
        )


def profile_or_show(
    request: ProfileRequest, also: Sequence[Path], *, plan_only: bool, dry_run: bool
) -> ProfileOutcome | None:
    """Profile a program; or print its commands, or its plan, and return None. `also` are files to be written then."""
    from gpuprof.collect.stopping import noted_signals
    from gpuprof.pipeline import command_lines, planned, profiled, refuse_no_plan

    if plan_only:
        refuse_no_plan(request)
    request = replace(request, on_event=Printer(plan_only=plan_only, keep_private=request.keep_private))
    if dry_run:
        for line in command_lines(request, also):
            click.echo(line)
        return None
    with noted_signals() as noted:
        request = replace(request, stop=noted.any)
        if plan_only:
            planned(request, also)
            return None
        outcome = profiled(request, also)
        return outcome._replace(error=noted.in_error(outcome.error))


def exit_code(outcome: ProfileOutcome, folder: Path) -> int:
    """Return the code to end with once the result is shown. Raises the error by which it is incomplete."""
    if isinstance(outcome.error, Interrupted):
        return outcome.error.exit_code
    if outcome.error is not None:
        with hinted(f"what was recorded before is shown; logs are in {folder}"):
            raise outcome.error
    return 0


class Printer:
    """Prints what profiling tells: to stderr, but to stdout the plan where that is what is asked for."""

    def __init__(self, *, plan_only: bool = False, keep_private: bool = False) -> None:
        from gpuprof.collect.progress import ProgressLine

        self._plan_only, self._keep_private, self._line = plan_only, keep_private, ProgressLine()

    def __call__(self, event: ProfileEvent) -> None:
        """Print an event."""
        from gpuprof.collect.events import ProfilePlanned, ProfileRemark, RunStarted, TimelineJudged
        from gpuprof.collect.survey_tools import NCU, TOOL_NAMES
        from gpuprof.words.plan import forecast_line, plan_lines, timeline_lines

        if isinstance(event, ProfileRemark):
            say(self._shown(event.text))
        elif isinstance(event, ProfilePlanned):
            for line in (*plan_lines(event.plan, event.selection), forecast_line(event)):
                click.echo(self._shown(line), err=not self._plan_only)
        elif isinstance(event, TimelineJudged):
            for line in timeline_lines(event.session):
                say(self._shown(line))
        elif isinstance(event, RunStarted) and event.by != NCU:
            say(f"survey: by {TOOL_NAMES[event.by]}")
        self._line(event)

    def _shown(self, text: str) -> str:
        from gpuprof.privacy.texts import clean_text

        return text if self._keep_private else clean_text(text)
