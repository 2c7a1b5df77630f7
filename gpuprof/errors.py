"""Every error that a user can meet: one tree, with an exit code and a hint.

GpuprofError            1  something went wrong that has no class of its own
├── UsageError          2  the command line is wrong
├── EnvironmentProblem  3  no ncu, no GPU, no permission
├── ProgramFailed       4  the user's program failed
├── Interrupted       130  the user stopped it; by a signal: 128 and its number, 143 for SIGTERM
└── InputError          5  a file cannot be read
    ├── DamagedInput    5  it is the right kind of file, but broken
    └── SpecError       5  a hardware spec is wrong, at a file and line

Exit codes that no exception has: GATE_REGRESSION and GATE_UNCLEAR of `gpuprof compare` and `check`, PIPE_CLOSED.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GATE_REGRESSION = 6
"""The exit code of `gpuprof compare` and `gpuprof check` if a limit is exceeded."""
GATE_UNCLEAR = 7
"""Their exit code if a limit cannot be judged, and `--unclear fail` was asked for."""
PIPE_CLOSED = 141
"""The exit code where the reader of a pipe has gone, as the shell tells SIGPIPE."""


class GpuprofError(Exception):
    """Something went wrong that has no class of its own; a defect of gpuprof ends so, too.

    `message` says in one sentence what happened, with the value that caused it; `hint`, what to type or do.
    """

    exit_code = 1
    session: Any = None
    """What `gpuprof.profile` had recorded before, a LoadedSession; None where that was nothing."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GpuprofError):
    """The command line is wrong, or an output cannot be written."""

    exit_code = 2


class EnvironmentProblem(GpuprofError):
    """The machine lacks something: ncu, nvdisasm, a GPU, a permission."""

    exit_code = 3


class ProgramFailed(GpuprofError):
    """The profiled program failed."""

    exit_code = 4


class Interrupted(GpuprofError):
    """The user stopped it. For a signal other than SIGINT the exit code is 128 plus its number."""

    exit_code = 130


class InputError(GpuprofError):
    """A file cannot be read, or is not what this command reads."""

    exit_code = 5


class DamagedInput(InputError):
    """A file of the right kind that is truncated, altered or inconsistent."""


class SpecError(InputError):
    """A hardware spec breaks a rule; the message starts with `file:line`."""


@contextmanager
def hinted(hint: str) -> Iterator[None]:
    """Give an error of the block this hint if it has none."""
    try:
        yield
    except GpuprofError as error:
        error.hint = error.hint or hint
        raise
