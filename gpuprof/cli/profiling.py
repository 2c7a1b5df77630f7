"""What `run` and `roofline` share: options on how a program is profiled, and the way from the survey to a session."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gpuprof.cli.options import refuse_overwrite
from gpuprof.collect.counter_sets import DEFAULT, SETS
from gpuprof.errors import EnvironmentProblem, InputError, Interrupted, ProgramFailed, UsageError

if TYPE_CHECKING:
    from gpuprof.api import HardwareFinder
    from gpuprof.collect.collector import Collector
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.collect.survey import Survey
    from gpuprof.hardware.specs import ArchSpec
    from gpuprof.model.analyse import Analysis
    from gpuprof.model.recorded import Report
    from gpuprof.model.session import Session
    from gpuprof.model.trace import Trace

SESSION_FILE = "session.json"
_INTERRUPTED = 130
_DRY_ARCH = "sm_90"


@dataclass(frozen=True, slots=True)
class Profiling:
    """The options that `profiling_options` adds, by their names."""

    ranges: tuple[str, ...]
    coverage: float
    samples: int
    launch_skip: int
    launch_count: int | None
    survey: str
    peers: bool
    counters: str
    ncu: str | None
    clock_control: str
    cache_control: str
    replay: str
    graphs: str
    annotate: str
    timeout: float | None
    plan_only: bool
    dry_run: bool
    arch: str | None
    ranks: str


_OPTIONS = (
    click.option("--set", "counters", type=click.Choice(list(SETS)), default=DEFAULT, show_default=True,
                 help="What to count."),
    click.option("--range", "ranges", multiple=True, metavar="NVTX", help="Profile only inside this NVTX range."),
    click.option("--coverage", type=click.FloatRange(0, 100, min_open=True), default=95, show_default=True,
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
    click.option("--arch", metavar="sm_XX", help=f"Take the counters of this chip. Default of --dry-run: {_DRY_ARCH}."),
    click.option("--ncu", metavar="PATH", help="This ncu instead of the newest that the driver supports."),
    click.option("--clock-control", type=click.Choice(["none", "base"]), default="none", show_default=True,
                 help="Whether ncu locks the clocks."),
    click.option("--cache-control", type=click.Choice(["all", "none"]), default="all", show_default=True,
                 help="Whether ncu empties the caches before each pass."),
    click.option("--replay", type=click.Choice(["kernel", "application"]), default="kernel", show_default=True,
                 help="What is repeated for each pass."),
    click.option("--graphs", type=click.Choice(["node", "graph"]), default="node", show_default=True,
                 help="CUDA graphs: each kernel, or the graph as one."),
    click.option("--annotate", type=click.Choice(["auto", "off"]), default="auto", show_default=True,
                 help="Name kernels by PyTorch's modules and operators."),
    click.option("--ranks", default="0", show_default=True, metavar="N|all",
                 help="Of a program that starts ranks (torchrun, mpirun, srun), profile this one, or all."),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                 help="End each run of the program after this time."),
)  # fmt: skip


def profiling_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options on how a program is profiled; the command gets them as one value, `profiling`."""

    @wraps(function)
    def command(**values: object) -> object:
        taken = {field.name: values.pop(field.name) for field in fields(Profiling)}
        return function(profiling=Profiling(**taken), **values)  # type: ignore[arg-type]

    wrapped: Callable[..., object] = command
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def request_for(
    program: tuple[str, ...], folder: Path, kernel: str | None, options: Profiling, *, quiet: bool = False
) -> ProfileRequest:
    """Return what is asked for; with `quiet` stdout is ours alone, and what the program prints goes to stderr.

    Raises UsageError if there is no such program, or if options are wrong or contradict each other.
    """
    from gpuprof.collect.request import ProfileRequest

    _refuse_contradictions(options)
    try:
        re.compile(kernel or "")
    except re.error as error:
        raise UsageError(f"--kernel {kernel!r} is no regular expression: {error}") from error
    survey = _survey_file(options.survey)
    if "%" in str(folder.absolute()):
        raise UsageError(f"{folder} cannot be the folder: ncu reads % as a placeholder", "choose another name with -o")
    return ProfileRequest(
        program=_runnable(program, check=not options.dry_run),
        folder=folder,
        counters=options.counters,
        coverage=options.coverage / 100,
        samples=options.samples,
        kernel=kernel,
        ranges=options.ranges,
        launch_skip=options.launch_skip,
        launch_count=options.launch_count,
        peers=options.peers,
        survey=survey,
        survey_by=options.survey if survey is None else "auto",
        clock_control=options.clock_control,
        cache_control=options.cache_control,
        replay_mode=options.replay,
        graphs=options.graphs,
        timeout_s=options.timeout,
        annotate=options.annotate == "auto",
        ranks=options.ranks,
        program_to_stderr=quiet,
    )


def folder_name(program: tuple[str, ...]) -> str:
    """Return the folder for a program's results: "gpuprof-train" for `python train.py`."""
    scripts = [word for word in program if word.endswith(".py")]
    modules = [after for before, after in pairwise(program) if before == "-m"]
    name = Path(scripts[0]).stem if scripts else modules[0] if modules else Path(program[0]).name
    return "gpuprof-" + (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run")


class ProfiledProgram:
    """A program under ncu, as the options say: its dry run, or its session with the code to end with."""

    def __init__(self, request: ProfileRequest, options: Profiling, spec: str | None) -> None:
        self.request, self._options, self._spec = request, options, spec
        self._collector: Collector | None = None

    def print_commands(self) -> None:
        """Print the command lines, each on a line of its own, and nothing else."""
        from gpuprof.collect.command import shell_line

        collector = _collector(self.request, self._ncu_or_its_name())
        click.echo(shell_line(["mkdir", "-p", str(self.request.folder)]))
        for line in collector.command_lines(_arch(self._options.arch or _DRY_ARCH)):
            click.echo(line)

    def _ncu_or_its_name(self) -> Path:
        """Return the ncu that a run would take; where there is none, the name to find it by."""
        from gpuprof.collect.installation import choose_ncu

        try:
            return choose_ncu(os.environ, self._options.ncu).path
        except EnvironmentProblem:
            return Path(self._options.ncu or "ncu")

    def session(self, outputs: Iterable[Path], *, force: bool) -> Session | None:
        """Profile the program and return the diagnosed session; None where only the plan was wanted.

        `outputs` are the files that the caller will write; none of them, and no report, is replaced without `force`.
        """
        from gpuprof.api import HardwareFinder
        from gpuprof.collect.command import as_ncu_may_call
        from gpuprof.collect.folder import logs_to_refuse, taken
        from gpuprof.collect.installation import choose_ncu
        from gpuprof.collect.machine import Machine, version_text
        from gpuprof.collect.request import AGAIN_FILE, PROFILE_FILE, survey_files

        finder, folder = HardwareFinder(self._spec), self.request.folder
        surveys = survey_files(folder) if self.request.survey is None else []
        profiles = [place for name in (PROFILE_FILE, AGAIN_FILE) for place in as_ncu_may_call(folder / name)]
        reports = [*profiles, *surveys, *logs_to_refuse(folder)]
        inputs = [str(self.request.survey)] if self.request.survey is not None else []
        refuse_overwrite([*reports, *outputs], inputs, force=force)
        chosen = choose_ncu(os.environ, self._options.ncu)
        made = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make {folder}: {error.strerror}", "choose another place with -o") from error
        self._collector = _collector(self.request, chosen.path)
        tell(f"ncu: {chosen}")
        driver = Machine().driver_version()
        if driver is not None and not chosen.suits(driver):
            tell(f"it needs driver {chosen.oldest_driver} or newer, and this is {version_text(driver)}: it may fail")
        try:
            with taken(folder):
                return _profiled(self._collector, finder, self._options)
        except BaseException:
            if made and not any(folder.iterdir()):
                folder.rmdir()
            raise

    def exit_code(self) -> int:
        """Return the code to end with once the result is shown. Raises ProgramFailed if the program did."""
        assert self._collector is not None
        if self._collector.execution.stopped_by == "interrupt":
            return _INTERRUPTED
        why = self._collector.why_incomplete()
        if why is not None:
            raise ProgramFailed(why, f"what was recorded before is shown; logs are in {self.request.folder}")
        return 0


def _collector(request: ProfileRequest, ncu: Path) -> Collector:
    from gpuprof.collect.collector import Collector
    from gpuprof.read.ncu_rep import read_ncu_rep

    def read(path: Path) -> Report:
        # A report that was cut short by a crash keeps the launches that are whole, and says so.
        return read_ncu_rep(path, salvage=True)

    return Collector(request, ncu, os.environ, read, _read_survey, tell)


def _read_survey(path: Path) -> Report | Trace:
    """Read a report of ncu, or a timeline. Raises InputError for anything else."""
    from gpuprof.model.session import Session
    from gpuprof.read.files import read_file

    found = read_file(str(path))
    if isinstance(found, Session):
        raise InputError(f"{path} is a session, which has no single launches", "name the report that it was made from")
    return found


def _profiled(collector: Collector, finder: HardwareFinder, options: Profiling) -> Session | None:
    from gpuprof._version import __version__
    from gpuprof.diagnose.diagnose import diagnose
    from gpuprof.model.analyse import analyse
    from gpuprof.model.surveyed import joined
    from gpuprof.present.plan_text import forecast_line, plan_lines

    named = _arch(options.arch) if options.arch is not None else None
    if collector.request.selects_launches:
        profile = collector.profile(named or _arch_here(), None)
        return diagnose(analyse(profile, finder, __version__, one_of_a_kind=True))
    survey = collector.survey()
    plan = collector.plan(survey)
    arch = named or finder(survey.device).arch
    for line in (*plan_lines(plan), forecast_line(plan, arch, options.counters, survey.seconds)):
        click.echo(line, err=not options.plan_only)
    if options.plan_only:
        return None
    surveyed = _survey_analysis(survey, finder)
    if collector.was_stopped():
        # The survey was cut short: its times are all there is.
        return diagnose(surveyed)
    try:
        profile = collector.profile(arch, plan)
    except (Interrupted, ProgramFailed) as error:
        if not collector.was_stopped():
            raise
        tell(f"{error.message}; the times of the survey are what there is")
        return diagnose(surveyed)
    return diagnose(joined(analyse(profile, finder, __version__, one_of_a_kind=True), surveyed))


def _survey_analysis(survey: Survey, finder: HardwareFinder) -> Analysis:
    from gpuprof._version import __version__
    from gpuprof.model.analyse import Analysis, analyse
    from gpuprof.model.recorded import Report
    from gpuprof.model.timeline import analyse_traces
    from gpuprof.model.trace import Trace

    traces = [one for one in survey.recorded if isinstance(one, Trace)]
    if not traces:
        reports = [one for one in survey.recorded if isinstance(one, Report)]
        return analyse(reports, finder, __version__, one_of_a_kind=True)
    found = analyse_traces(traces, finder, __version__)
    sources = tuple(replace(source, samples=survey.samples) for source in found.session.sources)
    return Analysis(replace(found.session, sources=sources), found.recorded)


def tell(text: str) -> None:
    """Say something on stderr."""
    from gpuprof.present.text import printable

    click.echo(printable(text), err=True)


def _runnable(program: tuple[str, ...], *, check: bool) -> tuple[str, ...]:
    """Return the words that run a program; a script or `-m MODULE` runs under the Python that is first on PATH.

    Raises UsageError if there is no such program.
    """
    words = program
    if program[0] == "-m" or (program[0].endswith(".py") and not _runs_itself(program[0])):
        words = ("python3" if shutil.which("python3") else "python", *program)
    place = shutil.which(words[0])
    missing = words[0] if place is None else _missing_script(words)
    if missing is not None and check:
        raise UsageError(f"{missing or 'an empty word'} is no program that can be run", "look at the words after --")
    return (place or words[0], *words[1:])


def _survey_file(named: str) -> Path | None:
    """Return the file that --survey names; None for a tool. Raises UsageError if it is neither."""
    from gpuprof.collect.survey_tools import TOOLS

    if named in TOOLS:
        return None
    if not Path(named).is_file():
        raise UsageError(f"--survey {named} is no file", f"name a file, or one of {', '.join(TOOLS)}")
    return Path(named)


def _runs_itself(script: str) -> bool:
    """Tell whether a script can be executed as it is: with a folder in its name, the right to, and a first line."""
    try:
        with Path(script).open("rb") as text:
            return os.sep in script and os.access(script, os.X_OK) and text.read(2) == b"#!"
    except OSError:
        return False


def _missing_script(words: tuple[str, ...]) -> str | None:
    """Return the script that Python is told to run, if it is not there."""
    if not re.fullmatch(r"python[\d.]*", Path(words[0]).name):
        return None
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    told = not any(word in ("-m", "-c") for word in words[1 : words.index(script) if script else None])
    return script if told and script.endswith(".py") and not Path(script).exists() else None


def _refuse_contradictions(options: Profiling) -> None:
    """Raise UsageError where options exclude each other."""
    if not math.isfinite(options.coverage) or not math.isfinite(options.timeout or 0.0):
        raise UsageError("--coverage and --timeout are numbers", "95, 600")
    by_number = options.launch_skip > 0 or options.launch_count is not None
    if by_number and (options.plan_only or options.survey != "auto"):
        wrong = "--plan-only" if options.plan_only else "--survey"
        raise UsageError(f"{wrong} and launches by number exclude each other", "leave --launch-skip and -count out")
    if not re.fullmatch(r"all|\d{1,6}", options.ranks):
        raise UsageError(f"--ranks {options.ranks} is no rank", "name one, such as 0, or all")
    if options.graphs == "graph" and options.replay == "application":
        raise UsageError("--graphs graph and --replay application exclude each other", "ncu replays graphs by kernel")


def _arch(name: str) -> ArchSpec:
    """Return the architecture of that name. Raises UsageError if there is no spec of it."""
    from gpuprof.hardware.library import SpecLibrary

    found = SpecLibrary().arch(name)
    if found is None:
        raise UsageError(f"no spec describes the architecture {name}", "gpuprof specs list")
    return found


def _arch_here() -> ArchSpec:
    """Return the architecture of this machine's GPUs. Raises EnvironmentProblem if it is not known, or not just one."""
    from gpuprof.collect.machine import gpus_here

    names = sorted({gpu.arch for gpu in gpus_here(os.environ)})
    if not names:
        raise EnvironmentProblem("nvidia-smi names no GPU here, so its counters are not known", "add --arch sm_XX")
    if len(names) > 1:
        # CUDA numbers GPUs otherwise than nvidia-smi, and the program sees those of CUDA_VISIBLE_DEVICES only.
        raise EnvironmentProblem(f"there are GPUs of several kinds here: {', '.join(names)}", "add --arch sm_XX")
    return _arch(names[0])
