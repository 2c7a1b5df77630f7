"""Runs the steps one after another: each within its time, its results scrubbed, kept and packed before the next one."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.gpu.context import PROGRAMS, OutOfTime, Places, StepContext, Stopped
from benchmarks.gpu.needs import Tools
from benchmarks.gpu.pack import STEP_FILE, packed, remember, write_whole
from benchmarks.gpu.scrub import Names, NotKept, in_value, scrubbed
from benchmarks.gpu.steps import LIMIT_S, Step
from gpuprof.errors import GpuprofError, UsageError

KIT_FILE = "kit.json"
_UNPACKED = "manifest.json"
"""What a pack that was unpacked to go on with says of the GPU."""
WELL, FAILED, SKIPPED, CUT, LEFT = "well", "failed", "skipped", "cut", "left"
_LARGEST_KEPT = 256 * 2**20
_WORTH_S = 60.0
"""What a step that continues must have left of `--minutes` to begin: it starts, compiles and opens the GPU anew."""
_ROOT = Path(__file__).resolve().parents[2]

Tell = Callable[[str], None]


@dataclass
class Kit:
    """One call of the command: places, tools, names to be scrubbed, variables, and until when it may go on.

    `packs` is where the pack goes; None: to the results.
    """

    places: Places
    tools: Tools
    names: Names
    environ: dict[str, str]
    tell: Tell
    until: float | None = None
    limit_s: float = LIMIT_S
    visit: str | None = None
    packs: Path | None = None
    stopped: list[int] = field(default_factory=list)

    def fits(self, forecast_s: float) -> bool:
        """Tell whether so many seconds are left."""
        return self.until is None or time.monotonic() + forecast_s <= self.until


def run_steps(kit: Kit, chosen: Sequence[Step], every: Sequence[Step], *, again: bool) -> dict[str, str]:
    """Run what is missing of the chosen steps; return the state of each. `again`: also those that failed."""
    _same_gpu(kit)
    states: dict[str, str] = {}
    with _noticed(kit):
        for step in chosen:
            states[step.name] = _state(kit, step, again=again)
            if states[step.name] not in (LEFT, CUT):
                continue
            if kit.stopped or not _fits(kit, step):
                break
            states[step.name] = _run(kit, step)
            pack(kit, every)
    for step in chosen:
        states.setdefault(step.name, _state(kit, step, again=False))
    pack(kit, every, states)
    return states


def pack(kit: Kit, every: Sequence[Step], states: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Bring the pack up to date with what is there."""
    mine = [step for step in every if kit.visit in (None, step.visit)]
    known = {step.name: (states or {}).get(step.name) or _state(kit, step, again=False) for step in mine}
    rows = [
        {"name": step.name, "visit": step.visit, "state": known[step.name], "reason": _reason(kit, step, known)}
        for step in mine
    ]
    about = json.loads((kit.places.out / KIT_FILE).read_text(encoding="utf-8"))
    names = [step.name for step in mine]
    return packed(kit.places.out, kit.visit or "all", names, {**about, "steps": rows}, target=kit.packs)


def _reason(kit: Kit, step: Step, known: Mapping[str, str]) -> str:
    return (why_not(kit, step) or "") if known[step.name] == SKIPPED else ""


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


def _same_gpu(kit: Kit) -> None:
    """Write down which GPU this is. Raises UsageError where the results are of another one."""
    file, gpu = kit.places.out / KIT_FILE, kit.tools.gpu
    mine = {"gpu": gpu.name if gpu else None, "compute_capability": gpu.compute_capability if gpu else None}
    known = next((_read(place) for place in (file, file.with_name(_UNPACKED)) if place.exists()), {})
    if known.get("gpu") and mine["gpu"] and known["gpu"] != mine["gpu"]:
        raise UsageError(f"{file.parent} has results of {known['gpu']}, this is {mine['gpu']}", "name another folder")
    kept = {name: value for name, value in mine.items() if value is not None}
    write_whole(file, {**mine, **known, **kept, "versions": dict(kit.tools.versions)})


def _read(file: Path) -> dict[str, object]:
    about = json.loads(file.read_text(encoding="utf-8"))
    return {name: about.get(name) for name in ("gpu", "compute_capability")}


def _state(kit: Kit, step: Step, *, again: bool) -> str:
    """Return what is known of a step: well, failed, skipped, cut, or left to be done, as one that was cut is, too."""
    file = kit.places.result(step.name) / STEP_FILE
    if file.exists():
        state = str(json.loads(file.read_text(encoding="utf-8"))["state"])
        if state == WELL or (not again and state != CUT):
            return state
        if state == CUT and why_not(kit, step) is None:
            return CUT
    return SKIPPED if why_not(kit, step) else LEFT


def why_not(kit: Kit, step: Step) -> str | None:
    """Return why a step cannot be run here; None where it can."""
    missing = [name for name in step.after if not (kit.places.result(name) / STEP_FILE).exists()]
    waits = f"it reads what {', '.join(missing)} leaves" if missing else None
    return kit.tools.why_not(step.needs) or waits


def _fits(kit: Kit, step: Step) -> bool:
    """Tell whether a step may begin. One that goes on where it was cut needs no more than is worth its start."""
    if kit.fits(min(step.forecast_s, _WORTH_S) if step.continues else step.forecast_s):
        return True
    kit.tell(f"{step.name} may take {step.forecast_s:.0f} s, more than is left of --minutes")
    return False


def _run(kit: Kit, step: Step) -> str:
    """Run one step and keep what it leaves; return its state."""
    kit.tell(f"{step.visit} {step.name}: {step.what}, about {step.forecast_s:.0f} s")
    work = _work_folder(kit.places, step)
    now = time.monotonic()
    ends = now + kit.limit_s
    context = StepContext(
        places=kit.places,
        tools=kit.tools,
        environ=dict(kit.environ),
        folder=work,
        until=min(ends, kit.until or ends),
        stopped=kit.stopped,
    )
    state = WELL
    try:
        step.work(context)
    except Stopped:
        kit.stopped.append(signal.SIGINT)
        state = CUT
    except OutOfTime as over:
        by_minutes = context.until < ends
        state = CUT if step.continues or by_minutes else FAILED
        context.problems.append(f"{over}: the time for this step was up")
    except (GpuprofError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        context.problems.append(f"{type(error).__name__}: {error}")
    if state == WELL and context.problems:
        state = FAILED
    _keep(kit, step, context, state)
    kit.tell(f"  {state} after {time.monotonic() - now:.0f} s{''.join(f'; {problem}' for problem in context.problems)}")
    return state


def _work_folder(places: Places, step: Step) -> Path:
    """Return the folder a step runs in: empty, or with what a cut has left, here or where the results are."""
    work, result = places.work(step.name), places.result(step.name)
    unfinished = step.continues and not (result / STEP_FILE).exists()
    if work.exists() and not unfinished:
        shutil.rmtree(work)
    if not work.exists() and unfinished and result.exists():
        shutil.copytree(result, work)
    work.mkdir(parents=True, exist_ok=True)
    return work


def _keep(kit: Kit, step: Step, context: StepContext, state: str) -> None:
    """Keep what a step has left, without what names this machine; what a cut has left is told as that.

    A step that continues does so from its files, and has no record before it is done.
    """
    result = kit.places.result(step.name)
    draft = result.with_name(f".{step.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    left_out = list(_copied(context.folder, draft, kit.names))
    if state != CUT or not step.continues:
        about = {
            "name": step.name, "visit": step.visit, "state": state, "problems": context.problems,
            "seconds": time.monotonic() - context.began, "versions": dict(kit.tools.versions),
            "figures": [asdict(figure) for figure in context.figures], "commands": context.record(),
            "left_out": left_out,
        }  # fmt: skip
        write_whole(draft / STEP_FILE, in_value(about, kit.names))
    shutil.rmtree(result, ignore_errors=True)
    draft.replace(result)
    remember(kit.places.out, step.name)


def _copied(source: Path, target: Path, names: Names) -> Iterator[dict[str, str]]:
    """Copy what may be kept; yield what is left out, and why."""
    for path in sorted(source.rglob("*")):
        name = str(path.relative_to(source))
        if path.is_symlink() or not path.is_file() or name == STEP_FILE:
            continue
        try:
            if path.stat().st_size > _LARGEST_KEPT:
                raise NotKept("it is too large")
            data = scrubbed(name, path.read_bytes(), names)
        except (NotKept, OSError) as why:
            yield {"file": name, "why": str(why)}
            continue
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


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
