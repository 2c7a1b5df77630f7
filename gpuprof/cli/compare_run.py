"""`gpuprof compare --run -- CMD_A --- CMD_B`: both programs are measured here, in turns, until verdicts are clear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuprof.cli.compare_sides import Programs, SideFiles
from gpuprof.cli.output import say, to_type, write_files
from gpuprof.cli.profiling import Printer, expression_of, refuse_file, refuse_folder
from gpuprof.errors import GpuprofError, Interrupted, UsageError
from gpuprof.needed_packages import refuse_missing_packages
from gpuprof.own_files import refuse_linked
from gpuprof.units import counted
from gpuprof.views.formats import TABLE, format_of_file

if TYPE_CHECKING:
    from gpuprof.ab_runner import MeasureRequest, RunsTaken, SideStarted, VerdictsChecked
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.comparison.compare import Compared
    from gpuprof.comparison.sides import Run
    from gpuprof.model.session import Session

_FOLDER = "gpuprof-compare"
_NAMED = 3
"""Kernels that a line of progress names."""
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class ToRun:
    """Two programs as they are to be measured, the folder of all results, and the files to write beside it."""

    base: ProfileRequest
    new: ProfileRequest
    folder: Path
    outputs: tuple[str, ...]
    budget_s: float


class MeasuredSides(NamedTuple):
    """The files of both sides, and the error that ended measuring before its time."""

    sides: SideFiles
    error: GpuprofError | None

    def exit_code(self, gate: int) -> int:
        """Return the code to end with once the comparison is shown. Raises what ended measuring, but for Ctrl-C."""
        if isinstance(self.error, Interrupted):
            return self.error.exit_code
        if self.error is not None:
            raise self.error
        return gate


def programs_to_run(programs: Programs, options: Mapping[str, Any]) -> ToRun:
    """Return what the options say of two programs. Raises UsageError for what they cannot say."""
    from gpuprof.ab_runner import BUDGET_S

    refuse_missing_packages()
    for program in programs:
        refuse_file(program[0])
    if options["update_baseline"]:
        raise UsageError("--update-baseline copies files, and --run measures both sides", "leave it out")
    for text in options["kernels"]:
        if text.startswith("#"):
            raise UsageError(f"--kernel {text:.80} numbers a kernel of a comparison", "name kernels: --kernel REGEX")
    folder, outputs = _folder_and_files(options["outputs"])
    for_both = {
        "kernel": expression_of(options["kernels"]),
        "exclude": options["exclude"],
        "spec": options["spec"],
        "overwrite": options["force"],
        "keep_private": options["keep_private"],
        "output": "inherit" if options["form"] == TABLE else "stderr",
    }
    base, new = (options["profiling"](program, None, **for_both) for program in programs)
    if base.survey_file is not None:
        raise UsageError(
            f"--survey {base.survey}: --run times both programs itself", "choose a tool, or leave --survey out"
        )
    return ToRun(base=base, new=new, folder=folder, outputs=outputs, budget_s=options["budget_s"] or BUDGET_S)


def _folder_and_files(outputs: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """Return the folder among the names after -o, the one that is of no format, and the others."""
    folders = [name for name in outputs if _names_folder(name)]
    if len(folders) > 1:
        raise UsageError(f"-o names two folders: {folders[0]:.100} and {folders[1]:.100}", "--run leaves all in one")
    folder = Path(folders[0]) if folders else Path(_FOLDER)
    if not folders:
        refuse_linked(folder)
    refuse_folder(folder)
    return folder, tuple(name for name in outputs if name not in folders)


def refuse_measured_places(files: Iterable[Path], folder: Path) -> None:
    """Raise UsageError for a file that would take the place of what is measured, or of the folder of it."""
    own = folder.resolve()
    taken = [own / name for name in ("base", "new", "samples")]
    for file in files:
        place = file.resolve()
        if place == own or any(place == part or part in place.parents for part in taken):
            raise UsageError(f"-o {file}: --run leaves there what it measures", "choose another name with -o")


def _names_folder(name: str) -> bool:
    form, equals, _ = name.partition("=")
    is_form = bool(equals) and form.isalnum()
    return name not in ("", "-") and not is_form and format_of_file("comparison", name) is None


def measured_sides(to_run: ToRun, compare: Callable[[Sequence[Run], Sequence[Run]], Compared]) -> MeasuredSides:
    """Profile both programs, time them in turns as `compare` asks for, and return the sessions that were written."""
    from dataclasses import replace

    from gpuprof.ab_runner import MeasureRequest, measured
    from gpuprof.collect.stopping import noted_signals

    printer = Printer(keep_private=to_run.base.keep_private)
    with noted_signals() as noted:
        request = MeasureRequest(
            base=replace(to_run.base, on_event=printer, stop=noted.any),
            new=replace(to_run.new, on_event=printer, stop=noted.any),
            folder=to_run.folder,
            compare=compare,
            keep=_keep,
            budget_s=to_run.budget_s,
            tell=_tell,
        )
        done = measured(request)
        error = noted.in_error(done.error)
    _tell_end(request, done)
    base, new = (tuple(map(str, files)) for files in (done.base, done.new))
    return MeasuredSides(SideFiles(base, new), error)


def _keep(session: Session, file: Path, page: Path | None) -> None:
    from gpuprof.store.write import session_pieces

    files: dict[Path, bytes | Iterable[bytes]] = {file: session_pieces(session)}
    if page is not None:
        from gpuprof.views.profile import session_page

        files[page] = session_page(session).encode("utf-8", "backslashreplace")
    write_files(files)


def _tell(event: SideStarted | VerdictsChecked) -> None:
    from gpuprof.ab_runner import VerdictsChecked
    from gpuprof.privacy.commands import reduced_program

    if isinstance(event, VerdictsChecked):
        say(_progress(event))
    else:
        say(f"{event.side}: {reduced_program(event.program):.200}")


def _progress(event: VerdictsChecked) -> str:
    """Return how far measuring is: runs per side, kernels to be settled, seconds left; or why it ends."""
    from gpuprof.words.comparison_verdicts import stop_text

    check, runs = event.check, f"{counted(event.rounds, 'run')} a side"
    if check.reason is not None:
        return f"{runs}: {stop_text(check.reason)}{_names(check.pending)}"
    left = f"{event.left_s:.0f} s left"
    if event.rounds == 1:
        return f"{runs}: timing both programs in turns, {left}"
    number = len(check.pending)
    return f"{runs}: {number} of {event.kernels} kernels to be settled{_names(check.pending)}; {left}"


def _names(labels: Sequence[str]) -> str:
    from gpuprof.text import cut_middle, printable

    names = [cut_middle(printable(label), _LONGEST) for label in labels[:_NAMED]]
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    return f": {', '.join(names)}{more}" if names else ""


def _tell_end(request: MeasureRequest, done: RunsTaken) -> None:
    """Print the folder of the results, the command that compares them again, and an error that ended measuring."""
    if done.error is not None:
        say(f"{done.error.message}: comparing {len(done.base)} and {len(done.new)} runs")
    parts = []
    for side, files in (("base", done.base), ("new", done.new)):
        samples = f" {to_type([files[1].parent])}/{side}-*.json" if len(files) > 1 else ""
        parts.append(f"--{side} {to_type(files[:1])}{samples}")
    say(f"wrote {request.folder}; next: gpuprof compare {' '.join(parts)}")
