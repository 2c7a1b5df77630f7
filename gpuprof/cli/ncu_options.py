"""What options of ncu mean here: those that mean the same are taken by ncu's name too, the others say what to type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from gpuprof.errors import UsageError

_COUNTERS = "gpuprof chooses the counters: --set full has all that ncu's full set has"
_EVERY_METRIC = "every metric of a report: ncu --import FILE --page raw"
_ONE_LAUNCH = "--kernel REGEX with --launch-skip N and --launch-count N picks launches"
_REPORT_PLACE = "-o DIR names the folder; ncu's report in it is profile.ncu-rep"
_NAMES = "--kernel takes a regular expression"
_PROGRAM_SAYS = "what is profiled is planned by time; --range NVTX limits it to a part of the program"
_DEVICES = "CUDA_VISIBLE_DEVICES limits the program to some GPUs"

OF_PROFILING = {
    "--app-replay-buffer": "--replay application repeats the program as ncu does by default",
    "--app-replay-match": "--replay application repeats the program as ncu does by default",
    "--app-replay-mode": "--replay application repeats the program as ncu does by default",
    "--apply-rules": "gpuprof has rules of its own; --set full keeps those of ncu in profile.ncu-rep",
    "--call-stack": "gpuprof show --explain '#0' DIR/session.json shows the lines of a kernel, not of its callers",
    "--check-exit-code": "gpuprof always tells how the program ended",
    "--config-file": "gpuprof does not read ncu's configuration file",
    "--config-file-path": "gpuprof does not read ncu's configuration file",
    "--csv": "profile first, then gpuprof show --format csv DIR/session.json",
    "--devices": _DEVICES,
    "--disable-profiler-start-stop": _PROGRAM_SAYS,
    "--export": _REPORT_PLACE,
    "--filter-mode": _ONE_LAUNCH,
    "--import": "a report is read by gpuprof show FILE",
    "-i": "a report is read by gpuprof show FILE",
    "--import-source": "source lines come along unless --set is roofline",
    "--kernel-id": _ONE_LAUNCH,
    "--kernel-regex": _NAMES,
    "--kernel-regex-base": _NAMES,
    "--kill": "--launch-count ends the program once its launches are profiled",
    "--launch-skip-before-match": _ONE_LAUNCH,
    "--list-metrics": "gpuprof run --dry-run -- ./app prints the metrics with the command",
    "--list-sections": _COUNTERS,
    "--list-sets": "sets of gpuprof: roofline, diagnose, full",
    "--log-file": "ncu's logs are left in the folder: survey.log, profile.log",
    "-m": "Python's -m follows --: gpuprof run -- -m package.module",
    "--metrics": f"{_COUNTERS}; a report of ncu --metrics is read by gpuprof show",
    "--mode": "gpuprof starts the program itself: gpuprof run -- ./app",
    "--nvtx-exclude": "--range NVTX profiles inside a range; what lies outside of one cannot be named",
    "--null-stdin": "redirect the program's input: gpuprof run -- ./app < /dev/null",
    "--open-in-ui": "profile first, then ncu-ui DIR/profile.ncu-rep",
    "--page": "profile first, then gpuprof show DIR/session.json",
    "--print-summary": "profile first, then gpuprof show DIR/session.json",
    "--profile-from-start": _PROGRAM_SAYS,
    "--quiet": "2> FILE keeps progress off the screen",
    "--query-metrics": "ncu --query-metrics lists them",
    "--range-filter": _PROGRAM_SAYS,
    "--rule": "gpuprof has rules of its own; --set full keeps those of ncu in profile.ncu-rep",
    "--section": _COUNTERS,
    "--target-processes-filter": "every process of the program is profiled; --kernel REGEX picks kernels",
}
"""Options of ncu that `run` and `roofline` do not have, and what to do instead."""

OF_READING = {
    "--csv": "gpuprof show --format csv FILE",
    "--details-all": "gpuprof show FILE shows what the details page has",
    "--kernel-name": "--kernel REGEX",
    "-k": "--kernel REGEX",
    "--metrics": _EVERY_METRIC,
    "--open-in-ui": "gpuprof report FILE writes a page for the browser",
    "--page": f"gpuprof show FILE shows what the details page has; {_EVERY_METRIC}",
    "--print-details": "--explain '#0' shows one kernel in full",
    "--print-kernel-base": "--format json has the names in full",
    "--print-metric-instances": _EVERY_METRIC,
    "--print-source": "--explain '#0' shows the lines that matter",
    "--print-summary": "kernels launched alike are one row already",
    "--print-units": "--format csv and --format json have base units",
    "--section": "--explain '#0' shows one kernel in full",
}
"""Options of ncu that commands which read reports do not have, and what to do instead."""

OF_VALUES = {
    ("--clock-control", "reset"): "ncu --clock-control reset does that alone",
    ("--set", "basic"): "--set roofline counts least; --set diagnose, the default, has what findings need",
    ("--set", "detailed"): "--set diagnose, the default, has what findings need; --set full has all of ncu's full set",
    ("--set", "nvlink"): _COUNTERS,
    ("--set", "pmsampling"): _COUNTERS,
    ("--replay", "range"): "--range NVTX profiles the kernels in a range, each by itself",
    ("--replay", "app-range"): "--range NVTX profiles the kernels in a range, each by itself",
    ("--kernel-name-base", "mangled"): "--kernel REGEX matches demangled names",
    ("--target-processes", "application-only"): "every process of the program is profiled: leave it out",
}
"""Values that ncu has for an option, and what to do instead."""


class ProfilingOption(click.Option):
    """An option on how a program is profiled; it is also taken by ncu's name for it, which help does not show."""

    def __init__(self, *args: Any, ncu: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self._ncu = ncu

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser know all names."""
        shown, self.opts = self.opts, [*self.opts, *self._ncu]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


option = partial(click.option, cls=ProfilingOption)
HIDDEN = (
    option("-k", "--kernel-name", metavar="NAME|regex:EXPRESSION", hidden=True),
    option("--kernel-name-base", type=click.Choice(["function", "demangled"]), hidden=True),
    option("--target-processes", type=click.Choice(["all"]), hidden=True),
    option("--nvtx", is_flag=True, hidden=True),
    click.option("-f", "--force-overwrite", is_flag=True, hidden=True),
)
"""Options that only ncu has: what they ask for is said to gpuprof otherwise, or is what it does in any case."""


def take_hidden(values: dict[str, Any]) -> None:
    """Turn what the hidden options say into values of ours. Raises UsageError where both say something."""
    name, base = values.pop("kernel_name"), values.pop("kernel_name_base")
    values["force"] = values.pop("force_overwrite") or values["force"]
    del values["target_processes"], values["nvtx"]
    values["kernel_base"] = "demangled"
    if name is None:
        if base is not None:
            raise UsageError("--kernel-name-base is about --kernel-name", "name kernels, or leave it out")
        return
    if values["kernels"]:
        raise UsageError("--kernel and --kernel-name cannot be combined", "leave --kernel-name out")
    values["kernels"] = (_expression(name),)
    values["kernel_base"] = base or "function"


def _expression(name: str) -> str:
    """Return ncu's way to name kernels as a regular expression: a name alone is the whole name."""
    kind, colon, expression = name.partition(":")
    return expression if (kind, colon) == ("regex", ":") else f"^{re.escape(name)}$"
