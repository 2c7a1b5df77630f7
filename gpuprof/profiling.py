"""What Python programs call to profile: `gpuprof.profile` gives the session of a program, `gpuprof.plan` its plan."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

from gpuprof.collect.choices import SESSION_FILE
from gpuprof.collect.plan import ProfilePlan
from gpuprof.collect.request import ProfileRequest, checked
from gpuprof.collect.stopping import noted_signals
from gpuprof.errors import UsageError, hinted
from gpuprof.notebook import LoadedSession
from gpuprof.own_files import write_whole
from gpuprof.pipeline import planned, profiled
from gpuprof.store.write import session_pieces

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _called_like(
    request: Callable[_Arguments, ProfileRequest],
) -> Callable[[Callable[[ProfileRequest], _Result]], Callable[_Arguments, _Result]]:
    """Let a function of a request be called with the arguments of the request, which are declared there alone."""

    def decorate(function: Callable[[ProfileRequest], _Result]) -> Callable[_Arguments, _Result]:
        shown = signature(request).replace(return_annotation=signature(function).return_annotation)

        @wraps(function)
        def called(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            try:
                shown.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(request(*args, **kwargs))

        called.__signature__ = shown  # type: ignore[attr-defined]
        return called

    return decorate


@_called_like(ProfileRequest)
def profile(request: ProfileRequest) -> LoadedSession:
    """Profile a program under Nsight Compute's ncu, and return its diagnosed session, as `gpuprof.load` does.

    The program runs in processes of its own: once to time every kernel, then to count what limits those that take most
    of the time, and why. Works in any thread, beside a running asyncio loop and in notebooks; it returns when all is
    done. Arguments are the options of `gpuprof run`; errors name those.

    What to run, and where to:

    - `program`: a list, a command and its words; a Python script, or `-m` and a module, runs under the first python3 on
      PATH.
    - `folder`: takes survey.*, the profile*.ncu-rep, the logs of ncu, program.log (what later runs print) and
      session.json. Default: gpuprof-PROGRAM in the current folder.
    - `overwrite`: replace these files. Without it a file that exists is a UsageError, before anything runs.
    - `keep_private`: keep the program's arguments, environment, hosts, users, folders and tokens in the session.

    What to profile:

    - `counters`: "roofline", "diagnose" or "full".
    - `coverage`: the share of the GPU's time that the profiled kernels take, above 0 and at most 1.
    - `samples`: how many launches of each.
    - `kernel`: a regular expression; only kernels whose demangled name has it. `kernel_base`: "demangled", or
      "function" to compare the function's own name, without namespace, template arguments and parameters.
    - `exclude`: regular expressions; no kernel whose label or demangled name has one of them. Their time counts.
    - `ranges`: NVTX ranges; only launches inside one of them.
    - `launch_skip`, `launch_count`: launches by number, without a survey.
    - `peers`: also kernels that wait for another rank, such as NCCL's.
    - `survey`: what times the kernels, "auto", "torch", "nsys", "cupti" or "ncu"; or a file to plan by.
    - `ranks`: which rank of a program that starts several, a number or "all".

    How:

    - `arch`, `spec`, `ncu`: the chip ("sm_90") whose counters are taken, the GPU spec (name or file) and the ncu to
      use, instead of those that are found.
    - `clock_control`: "none", or "base" to lock the clocks. `cache_control`: "all" to empty the caches before each
      pass, or "none". `replay_mode`: "kernel" or "application", what is repeated for each pass. `graphs`: "node", or
      "graph" to take a CUDA graph as one launch.
    - `annotate`: name kernels by PyTorch's modules and operators.
    - `timeout_s`: end each run of the program after so many seconds.

    How it is watched and ended:

    - `output`: where goes what the program prints in its first run. "inherit": the stdout of this process, and
      sys.stderr; "stderr": stderr for both; "discard": nowhere; or a function that gets pieces of text, such as the
      `write` of a file or of a notebook's sys.stdout.
    - `on_event`: a function that gets each event of `gpuprof.events`: remarks, the plan, the start, progress
      and end of each run. An exception that it, or `output`, raises ends the program and is raised here.
    - `stop`: a function, such as `is_set` of a threading.Event, that is asked some ten times a second whether to
      end the program as Ctrl-C does. All three functions are called in the calling thread.

    Ctrl-C, or interrupting the cell, ends the program where the call is made in the main thread. SIGTERM, SIGHUP and
    SIGQUIT end it there, too, and then take their usual effect. All processes of the program are ended.

    Raises a GpuprofError with a hint: UsageError (an argument is wrong, a file exists), EnvironmentProblem (no ncu, no
    GPU, no permission), InputError (a survey cannot be read), ProgramFailed (it failed, or its time was up) and
    Interrupted. Its `session` is what was recorded until then, such as the times of the survey, and is also in
    session.json; it is None where nothing was.
    """
    with _handing_signals_on(checked(request)) as asked:
        place = asked.place / SESSION_FILE
        outcome = profiled(asked, [place])
        session = LoadedSession.of(outcome.session)
        _save(session, place)
        if outcome.error is None:
            return session
        outcome.error.session = session
        with hinted(f"what was recorded is in the error's `session` and in {place}; the logs are beside it"):
            raise outcome.error


@_called_like(ProfileRequest)
def plan(request: ProfileRequest) -> ProfilePlan:
    """Survey a program, and return what `gpuprof.profile` with the same arguments would profile.

    The program runs once. The survey is left in the folder, and saves `profile` that run as its `survey`. Raises what
    `profile` raises.
    """
    with _handing_signals_on(checked(request)) as asked:
        return planned(asked)


def _save(session: LoadedSession, place: Path) -> None:
    """Write a session whole or not at all. Raises UsageError with the reason."""
    try:
        write_whole(place, session_pieces(session))
    except OSError as error:
        hint = "the reports are in the same folder; gpuprof.load reads them"
        raise UsageError(f"cannot write {place}: {error.strerror}", hint) from error


@contextlib.contextmanager
def _handing_signals_on(request: ProfileRequest) -> Iterator[ProfileRequest]:
    """Let signals that end this process end the program first, and take their usual effect behind the block."""
    with contextlib.ExitStack() as behind, noted_signals() as noted:
        behind.callback(noted.hand_on)
        yield replace(request, stop=lambda: noted.any() or request.stop())
