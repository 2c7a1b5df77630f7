"""What `run` and `roofline` share: options on how a program is profiled, and what is printed while it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from gpuprof.collect.choices import DRY_ARCH, CacheControl, ClockControl, GraphProfiling, ReplayMode
from gpuprof.collect.counter_sets import DEFAULT, SETS
from gpuprof.errors import Interrupted, ProgramFailed

if TYPE_CHECKING:
    from gpuprof.collect.events import ProfileEvent
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.pipeline import ProfileOutcome


class _Percent(click.FloatRange):
    """A share in percent, as a fraction."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return 0.95 for 95."""
        return float(super().convert(value, param, ctx)) / 100


class _Auto(click.Choice[str]):
    """auto or off, as a bool."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return whether it is not off."""
        return super().convert(value, param, ctx) != "off"


_OPTIONS = (
    click.option("--set", "counters", type=click.Choice(list(SETS)), default=DEFAULT, show_default=True,
                 help="What to count."),
    click.option("--range", "ranges", multiple=True, metavar="NVTX", help="Profile only inside this NVTX range."),
    click.option("--coverage", type=_Percent(0, 100, min_open=True), default=95, show_default=True,
                 metavar="PERCENT", help="Profile the kernels that take this share of the GPU's time."),
    click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True,
                 help="Profile so many launches of each."),
    click.option("--launch-skip", type=click.IntRange(min=0), default=0, help="Skip launches. Makes no survey."),
    click.option("--launch-count", type=click.IntRange(min=1), help="Profile so many launches. Makes no survey."),
    click.option("--survey", default="auto", show_default=True, metavar="auto|torch|nsys|cupti|ncu|FILE",
                 help="What times the kernels in the first run; or plan by this .ncu-rep, .ncu-repz, PyTorch trace or "
                      ".sqlite of Nsight Systems, without one."),
    click.option("--peers", is_flag=True, help="Also kernels that wait for another rank, such as NCCL's."),
    click.option("--plan-only", is_flag=True, help="Stop after the survey, with the plan."),
    click.option("--dry-run", is_flag=True, help="Print the commands and run none."),
    click.option("--arch", metavar="sm_XX", help=f"Take the counters of this chip. Default of --dry-run: {DRY_ARCH}."),
    click.option("--ncu", metavar="PATH", help="This ncu instead of the newest that the driver supports."),
    click.option("--clock-control", type=click.Choice(get_args(ClockControl)), default="none", show_default=True,
                 help="Whether ncu locks the clocks."),
    click.option("--cache-control", type=click.Choice(get_args(CacheControl)), default="all", show_default=True,
                 help="Whether ncu empties the caches before each pass."),
    click.option("--replay", "replay_mode", type=click.Choice(get_args(ReplayMode)), default="kernel",
                 show_default=True, help="What is repeated for each pass."),
    click.option("--graphs", type=click.Choice(get_args(GraphProfiling)), default="node", show_default=True,
                 help="CUDA graphs: each kernel, or the graph as one."),
    click.option("--annotate", type=_Auto(["auto", "off"]), default="auto", show_default=True,
                 help="Name kernels by PyTorch's modules and operators."),
    click.option("--ranks", default="0", show_default=True, metavar="N|all",
                 help="Of a program that starts ranks (torchrun, mpirun, srun), profile this one, or all."),
    click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                 help="End each run of the program after this time."),
)  # fmt: skip
_OF_COMMAND = ("plan_only", "dry_run")


def profiling_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options on how a program is profiled: `profiling` makes a request of them, with what else it is given.

    Whether it is profiled at all, the command gets as `plan_only` and `dry_run`.
    """

    @wraps(function)
    def command(**values: object) -> object:
        from gpuprof.collect.request import ProfileRequest

        asked = {name: values.pop(name) for name in names if name not in _OF_COMMAND}
        return function(profiling=partial(ProfileRequest, **asked), **values)  # type: ignore[arg-type]

    wrapped: Any = command
    before = len(getattr(command, "__click_params__", ()))
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    names = [param.name for param in wrapped.__click_params__[before:]]
    return wrapped  # type: ignore[no-any-return]


def profile_or_show(
    request: ProfileRequest, also: Sequence[Path], *, plan_only: bool, dry_run: bool
) -> ProfileOutcome | None:
    """Profile a program; or print its commands, or its plan, and return None. `also` are files to be written then."""
    from gpuprof.pipeline import command_lines, planned, profiled, refuse_no_survey

    if plan_only:
        refuse_no_survey(request)
    request = replace(request, on_event=_Printer(plan_only=plan_only))
    if dry_run:
        for line in command_lines(request):
            click.echo(line)
        return None
    if plan_only:
        planned(request, also)
        return None
    return profiled(request, also)


def exit_code(outcome: ProfileOutcome, folder: Path) -> int:
    """Return the code to end with once the result is shown. Raises ProgramFailed if the program did."""
    if outcome.interrupted:
        return Interrupted.exit_code
    if outcome.incomplete is not None:
        raise ProgramFailed(outcome.incomplete, f"what was recorded before is shown; logs are in {folder}")
    return 0


class _Printer:
    """Prints what profiling tells: to stderr, but to stdout the plan where that is what is asked for."""

    def __init__(self, *, plan_only: bool) -> None:
        from gpuprof.collect.progress import ProgressLine

        self._plan_only, self._line = plan_only, ProgressLine()

    def __call__(self, event: ProfileEvent) -> None:
        from gpuprof.collect.events import ProfilePlanned, ProfileRemark, RunStarted
        from gpuprof.collect.survey_tools import NCU, TOOL_NAMES
        from gpuprof.present.plan_text import forecast_line, plan_lines

        if isinstance(event, ProfileRemark):
            say(event.text)
        elif isinstance(event, ProfilePlanned):
            forecast = forecast_line(event.plan, event.arch, event.counters, event.survey_s)
            for line in (*plan_lines(event.plan), forecast):
                click.echo(line, err=not self._plan_only)
        elif isinstance(event, RunStarted) and event.by != NCU:
            say(f"survey: by {TOOL_NAMES[event.by]}")
        self._line(event)


def say(text: str) -> None:
    """Say something on stderr."""
    from gpuprof.present.text import printable

    click.echo(printable(text), err=True)
