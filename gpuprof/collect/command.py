"""The command lines of `ncu`: every flag that matters is passed, because defaults change between releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuprof.collect.ncu_help import UNKNOWN, KnownOptions
from gpuprof.collect.shell import shell_line

BY_POSITION = "launch-skip-before-match"
"""The option by which ncu counts launches whatever their names; older releases do not have it."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which launches are profiled; what is empty is not passed.

    `skip_before_match` counts all launches, and `launch_skip` those that the other filters let through. `kernel_id` is
    ncu's `context:stream:name:invocation`, whose name is of the kind `name_base`, "mangled" or "demangled"; `ranges`
    are NVTX expressions.
    """

    skip_before_match: int = 0
    kernel: str | None = None
    kernel_id: str | None = None
    launch_skip: int = 0
    launch_count: int | None = None
    ranges: tuple[str, ...] = ()
    name_base: str = "demangled"
    profiler_calls: Literal["obeyed", "ignored", "awaited"] = "obeyed"
    """The program's calls of cudaProfilerStart and cudaProfilerStop. "obeyed": nothing is profiled between a stop and
    the next start; "awaited": nor before the first start."""

    def options(self) -> list[tuple[str, ...]]:
        """Return the options that select launches, each with its value."""
        options: list[tuple[str, ...]] = [("--kernel-name-base", self.name_base)]
        if self.kernel_id is not None:
            options += [("--kernel-id", self.kernel_id), ("--filter-mode", "per-launch-config")]
        if self.kernel is not None:
            options.append(("--kernel-name", f"regex:{self.kernel}"))
        if self.skip_before_match:
            options.append((f"--{BY_POSITION}", str(self.skip_before_match)))
        if self.launch_skip:
            options.append(("--launch-skip", str(self.launch_skip)))
        if self.launch_count is not None:
            options.append(("--launch-count", str(self.launch_count)))
        options += [("--nvtx-include", expression) for expression in self.ranges]
        if self.profiler_calls == "ignored":
            options.append(("--disable-profiler-start-stop",))
        if self.profiler_calls == "awaited":
            options.append(("--profile-from-start", "off"))
        return options


@dataclass(frozen=True, slots=True)
class NcuCommand:
    """One run of a program under ncu. `output` ends in `.ncu-rep`: releases differ in what they add.

    `known` are the options that this ncu knows: others are left out.
    """

    ncu: Path
    program: tuple[str, ...]
    output: Path
    log: Path
    metrics: tuple[str, ...]
    sections: tuple[str, ...] = ()
    stock_set: str | None = None
    rules: bool = False
    """NVIDIA's rules speak of the sections, too; of a set of ncu's own they always do."""
    source: bool = False
    filters: Filters = field(default_factory=Filters)
    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    targets: str = "all"
    graphs: str = "node"
    kill: bool = False
    source_folders: tuple[Path, ...] = ()
    """Where `source` looks for files that the program's debug information names without a folder."""
    known: KnownOptions = UNKNOWN
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of this run alone."""

    def argv(self) -> list[str]:
        """Return the arguments to execute, ncu first."""
        return [str(self.ncu), *self.known.without_unknown(self._options()), *self.program]

    def _options(self) -> list[tuple[str, ...]]:
        yes = {True: "yes", False: "no"}
        options: list[tuple[str, ...]] = [
            ("--config-file", "off"), ("--clock-control", self.clock_control), ("--cache-control", self.cache_control),
            *self._against_new_defaults(), ("--replay-mode", self.replay_mode), ("--target-processes", self.targets),
            ("--graph-profiling", self.graphs), ("--nvtx",), ("--import-source", yes[self.source]),
            ("--check-exit-code", "yes"), ("--kill", yes[self.kill]),
            ("--apply-rules", yes[self.rules or self.stock_set is not None]), *self.filters.options(),
        ]  # fmt: skip
        if self.stock_set is not None:
            options.append(("--set", self.stock_set))
        options += [("--section", section) for section in self.sections]
        if self.source_folders:
            options.append(("--source-folders", ",".join(map(str, self.source_folders))))
        if self.metrics:
            options.append(("--metrics", ",".join(self.metrics)))
        log, output = ("--log-file", str(self.log)), ("--export", str(self.output))
        return [*options, log, output, ("--force-overwrite",)]

    def _against_new_defaults(self) -> list[tuple[str, ...]]:
        """Return what keeps the names that filters match whole, and tensor cores as fast as without a profiler.

        ncu 2025.1 and newer shorten names by default, and hold the boost of tensor cores.
        """
        options: list[tuple[str, ...]] = []
        renaming = self.known.switch("rename-kernels")
        if renaming is not None:
            options.append(("--rename-kernels", renaming[1]))
        if self.clock_control == "none" and self.known.names_value("pipeline-boost-state", "dynamic"):
            options.append(("--pipeline-boost-state", "dynamic"))
        return options

    def shell(self) -> str:
        """Return the command as one line that a POSIX shell runs as it is."""
        settings = [f"{name}={value}" for name, value in self.variables.items()]
        return shell_line([*(["env", *settings] if settings else []), *self.argv()])


def as_ncu_may_call(path: Path) -> tuple[Path, ...]:
    """Return under which names ncu may leave a report: from Nsight Compute 2026.3 on it may be a `.ncu-repz`."""
    return (path, path.with_suffix(".ncu-repz")) if path.suffix == ".ncu-rep" else (path,)
