"""Parse recorded command lines of ncu."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

VARIABLE = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
"""The start of an environment assignment."""
_NCU = re.compile(r"(?:.*[/\\])?(?:ncu|nv-nsight-cu-cli)(?:\.exe)?")


def names(text: str) -> frozenset[str]:
    """Return the names in a space-separated list."""
    return frozenset(text.split())


SWITCHES = names(
    "help version call-stack nvtx support-32bit null-stdin list-sets list-sections list-rules list-metrics list-chips "
    "query-metrics section-folder-restore disable-profiler-start-stop quiet verbose disable-extra-suffixes "
    "force-overwrite open-in-ui csv print-fp print-rule-details details-all lockstep-kernel-launch"
)
"""Options of ncu that take no value."""
_VALUED = names(
    "mode port max-connections config-file config-file-path check-exit-code injection-path-32 injection-path-64 "
    "preload-library target-processes target-processes-filter hostname kill replay-mode app-replay-buffer "
    "app-replay-match app-replay-mode graph-profiling range-replay-options set section-folder "
    "section-folder-recursive apply-rules rule import-source source-folders query-metrics-mode "
    "query-metrics-collection chips profile-from-start cache-control clock-control devices filter-mode kernel-id "
    "kernel-name kernel-regex kernel-name-base kernel-regex-base launch-count launch-skip launch-skip-before-match "
    "section metrics nvtx-include nvtx-exclude range-filter pm-sampling-interval pm-sampling-buffer-size "
    "pm-sampling-max-passes warp-sampling-interval warp-sampling-max-passes warp-sampling-buffer-size "
    "sampling-interval sampling-max-passes sampling-buffer-size log-file export import page print-source "
    "resolve-source-file print-details print-metric-name print-units print-kernel-base print-metric-instances "
    "print-nvtx-rename print-summary rename-kernels pipeline-boost-state communicator communicator-tcp-port"
)
_LETTERS = {
    "h": "help", "v": "version", "p": "port", "k": "kernel-name", "c": "launch-count", "s": "launch-skip",
    "o": "export", "f": "force-overwrite", "i": "import",
}  # fmt: skip


def is_ncu(word: str) -> bool:
    """Return whether an argument names ncu, with or without folders."""
    return _NCU.fullmatch(word) is not None


def arguments_of(command: str) -> list[str]:
    """Split a command line. ncu records it without quotes, gpuprof with the quotes that a shell needs."""
    try:
        arguments = shlex.split(command)
    except ValueError:
        return command.split()
    return arguments if shlex.join(arguments) == command.strip() else command.split()


def option_at(arguments: Sequence[str], place: int) -> tuple[str, str | None, int] | None:
    """Return an option's name, its value and their number of arguments; None if it is unknown or incomplete."""
    word = arguments[place]
    attached: str | None = None
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        attached = value if equals else None
    else:
        name = _LETTERS.get(word[1:2], "")
        attached = word[2:].removeprefix("=") or None
    if name in SWITCHES and attached is None:
        return name, None, 1
    if name not in _VALUED:
        return None
    if attached is not None:
        return name, attached, 1
    return (name, arguments[place + 1], 2) if place + 1 < len(arguments) else None
