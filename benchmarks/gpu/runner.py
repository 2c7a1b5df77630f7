"""Runs the steps of a call one after another: what each leaves is scrubbed, kept and packed before the next one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.context import PROGRAMS, Before, Call, OutOfTime, Places, StepContext, Stopped
from benchmarks.gpu.needs import Tools
from benchmarks.gpu.pack import STEP_FILE, forget, packed, remember, write_whole
from benchmarks.gpu.scrub import Names, NotKept, in_value, scrubbed
from benchmarks.gpu.steps import Step
from gpuprof.errors import GpuprofError, UsageError

WELL, FAILED, SKIPPED, CUT, LEFT = "well", "failed", "skipped", "cut", "left"
_LARGEST_KEPT = 256 * 2**20
_KEPT_EVERY_S = 5.0
"""What a step has is kept and packed after a command, where that was not done for so long."""
_WORTH_BEGINNING_S = 30.0
"""A step that can go on where it was cut begins if so much time is left, or all that it takes."""
_LEAST_LEFT = 0.2
"""What a step still takes, as a part of its forecast, however long it has run."""
_ROOT = Path(__file__).resolve().parents[2]

Tell = Callable[[str], None]


@dataclass
class Kit:
    """One call: places, tools, names to be scrubbed, variables, and until when it may go on, by time.monotonic().

    `title` names its pack, which goes to the folder `packs`.
    """

    places: Places
    tools: Tools
    names: Names
    environ: dict[str, str]
    tell: Tell
    until: float
    title: str
    packs: Path
    stopped: list[int] = field(default_factory=list)


def run_steps(kit: Kit, chosen: Sequence[Step]) -> dict[str, str]:
    """Run what is not done yet of the chosen steps and fits; return the state of each."""
    _mend(kit)
    states = {}
    with _noticed(kit):
        for step in chosen:
            states[step.name] = _state(kit, step)
            if states[step.name] not in (WELL, SKIPPED) and not kit.stopped and _fits(kit, step):
                states[step.name] = _run(kit, step, chosen)
                pack(kit, chosen)
    pack(kit, chosen)
    return states


def forecast_left_s(kit: Kit, step: Step) -> float:
    """Return how long a step may still take: a cut has done a part of it, but not of the command that it ended."""
    before = _before(kit, step)
    if before is None:
        return step.forecast_s
    spent = before.seconds if step.continues else before.done_s
    return max(step.forecast_s - spent, _LEAST_LEFT * step.forecast_s)


def pack(kit: Kit, chosen: Sequence[Step]) -> tuple[Path, ...]:
    """Bring the pack up to date with what is there; return its files."""
    gpu = kit.tools.gpu
    about = {
        "gpu": gpu.name if gpu is not None else None,
        "compute_capability": gpu.compute_capability if gpu is not None else None,
        "versions": dict(kit.tools.versions),
        "steps": [_row(kit, step) for step in chosen],
    }
    return packed(kit.places.out, kit.title, [step.name for step in chosen], about, kit.packs)


def _row(kit: Kit, step: Step) -> dict[str, str]:
    state = _state(kit, step)
    return {"name": step.name, "state": state, "reason": (why_not(kit, step) or "") if state == SKIPPED else ""}


@contextlib.contextmanager
def scratch_folder(scratch: Path) -> Iterator[None]:
    """Make the neutral folder that all runs in, with the programs and a link to gpuprof; one call at a time has it.

    Raises UsageError where it belongs to somebody else, or another call has it.
    """
    with contextlib.suppress(FileExistsError):
        scratch.mkdir(mode=0o700, parents=True)
    state = scratch.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise UsageError(f"{scratch} is not a folder of yours", "choose another one with --scratch")
    with (scratch / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"another run has {scratch}", "wait for it, or choose another one with --scratch"
            ) from error
        _fill(Places(scratch, scratch))
        yield


def _fill(places: Places) -> None:
    for name in ("home", "tmp", "steps", "programs"):
        (places.scratch / name).mkdir(exist_ok=True)
    if not places.tree.is_symlink() or places.tree.resolve() != _ROOT:
        places.tree.unlink(missing_ok=True)
        places.tree.symlink_to(_ROOT)
    for program in PROGRAMS.iterdir():
        copy = places.programs / program.name
        if program.is_file() and (not copy.exists() or copy.read_bytes() != program.read_bytes()):
            shutil.copyfile(program, copy)
            copy.with_suffix("").unlink(missing_ok=True)


def _mend(kit: Kit) -> None:
    """Put in place what an earlier call had kept whole when it was killed, and remove what it had begun to keep."""
    for draft in kit.places.steps.glob(".*.draft"):
        result = kit.places.result(draft.name[1 : -len(".draft")])
        if (draft / STEP_FILE).exists() and not result.exists():
            forget(kit.places.out, result.name)
            draft.replace(result)
        else:
            shutil.rmtree(draft, ignore_errors=True)


def _state(kit: Kit, step: Step) -> str:
    """Return what is known of a step: well; skipped, as it cannot run; or failed, cut or left, and to be run again."""
    state = str((_about(kit, step.name) or {"state": LEFT})["state"])
    return SKIPPED if state != WELL and why_not(kit, step) else state


def _about(kit: Kit, name: str) -> dict[str, Any] | None:
    """Return what is written down of a step; None where nothing is."""
    file = kit.places.result(name) / STEP_FILE
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def why_not(kit: Kit, step: Step) -> str | None:
    """Return why a step cannot be run here; None where it can."""
    missing = [name for name in step.after if (_about(kit, name) or {"state": CUT})["state"] == CUT]
    waits = f"it reads what {', '.join(missing)} leaves" if missing else None
    return kit.tools.why_not(step.needs) or waits


def _fits(kit: Kit, step: Step) -> bool:
    needed = left = forecast_left_s(kit, step)
    if step.continues:
        needed = min(left, _WORTH_BEGINNING_S)
    if time.monotonic() + needed <= kit.until:
        return True
    kit.tell(f"{step.name} may take {left:.0f} s, more than is left of this call")
    return False


def _run(kit: Kit, step: Step, chosen: Sequence[Step]) -> str:
    """Run one step and keep what it leaves, also between its commands; return its state."""
    kit.tell(f"{step.name}: {step.what}, about {forecast_left_s(kit, step):.0f} s")
    before = _before(kit, step)
    killed = step.continues and _about(kit, step.name) is None
    work = _work_folder(kit.places, step, goes_on=before is not None or killed)
    now = time.monotonic()
    kept = _Kept(kit, step, chosen)
    context = StepContext(
        places=kit.places,
        tools=kit.tools,
        environ=dict(kit.environ),
        folder=work,
        until=kit.until,
        stopped=kit.stopped,
        before=before or Before(),
        keep=kept.between,
    )
    state = WELL
    try:
        step.work(context)
    except Stopped:
        kit.stopped.append(signal.SIGINT)
        state = CUT
    except OutOfTime as over:
        state = CUT
        context.problems.append(f"{over}: the time was up")
    except (GpuprofError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        context.problems.append(f"{type(error).__name__}: {error}")
    if state == WELL and context.problems:
        state = FAILED
    kept.now(context, state)
    kit.tell(f"  {state} after {time.monotonic() - now:.0f} s{''.join(f'; {problem}' for problem in context.problems)}")
    return state


def _before(kit: Kit, step: Step) -> Before | None:
    """Return what a cut has left of a step; None where there is none to go on with."""
    about = _about(kit, step.name)
    if about is None or about["state"] != CUT:
        return None
    rows = [{**row, "command": tuple(row["words"]), "files": tuple(row["files"])} for row in about["commands"]]
    calls = tuple(Call(**{name: value for name, value in row.items() if name != "words"}) for row in rows)
    return Before(
        calls=calls,
        seconds=float(about["seconds"]),
        left_out=frozenset(row["file"] for row in about["left_out"]),
        neutral=lambda command: [str(in_value(word, kit.names)) for word in command],
    )


def _work_folder(places: Places, step: Step, *, goes_on: bool) -> Path:
    """Return the folder a step runs in: empty, or with what a cut has left, here or where the results are."""
    work, result = places.work(step.name), places.result(step.name)
    if work.exists() and not goes_on:
        shutil.rmtree(work)
    if not work.exists() and goes_on and result.exists():
        shutil.copytree(result, work)
    work.mkdir(parents=True, exist_ok=True)
    return work


class _Kept:
    """Keeps what a step has left, without what names this machine: in its results, and in the pack.

    Between two commands that is told as what a cut has left, which it is if nothing else comes. What has not changed
    since it was kept last is not looked into again.
    """

    def __init__(self, kit: Kit, step: Step, chosen: Sequence[Step]) -> None:
        self._kit, self._step, self._chosen = kit, step, chosen
        self._last = time.monotonic()
        self._states: dict[str, tuple[int, int]] = {}

    def between(self, context: StepContext) -> None:
        """Keep what there is, if that was not done a moment ago."""
        if time.monotonic() - self._last >= _KEPT_EVERY_S:
            self.now(context, CUT)
            pack(self._kit, self._chosen)

    def now(self, context: StepContext, state: str) -> None:
        """Keep what there is, with a record that says in which state the step is."""
        step, names = self._step, self._kit.names
        result = self._kit.places.result(step.name)
        draft = result.with_name(f".{step.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        left_out = list(self._copied(context.folder, draft, result))
        about = {
            "name": step.name, "state": state, "problems": context.problems, "seconds": context.seconds,
            "versions": dict(self._kit.tools.versions), "figures": [asdict(figure) for figure in context.figures],
            "commands": context.record(), "left_out": left_out,
        }  # fmt: skip
        write_whole(draft / STEP_FILE, in_value(about, names))
        forget(self._kit.places.out, step.name)
        shutil.rmtree(result, ignore_errors=True)
        draft.replace(result)
        remember(self._kit.places.out, step.name)
        self._last = time.monotonic()

    def _copied(self, source: Path, target: Path, before: Path) -> Iterator[dict[str, str]]:
        """Copy what may be kept; yield what is left out, and why."""
        for path in sorted(source.rglob("*")):
            name = str(path.relative_to(source))
            if path.is_symlink() or not path.is_file() or name == STEP_FILE:
                continue
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                about = path.stat()
                state = (about.st_size, about.st_mtime_ns)
                if self._states.get(name) == state:
                    _linked(before / name, place)
                    continue
                if state[0] > _LARGEST_KEPT:
                    raise NotKept("it is too large")
                place.write_bytes(scrubbed(name, path.read_bytes(), self._kit.names))
                self._states[name] = state
            except (NotKept, OSError) as why:
                yield {"file": name, "why": str(why)}


def _linked(file: Path, place: Path) -> None:
    """Have a file in another place, too; not every file system has links."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


@contextlib.contextmanager
def _noticed(kit: Kit) -> Iterator[None]:
    """Notice signals to stop between two commands; during one, what runs it does."""
    before = {
        which: signal.signal(which, lambda sent, _: kit.stopped.append(sent))
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(which) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
