"""The command lines of `ncu`: every flag that matters is passed, because defaults change between releases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Filters:
    """Which launches are profiled; what is empty is not passed.

    `kernel_id` is ncu's `context:stream:name:invocation`, whose name is of the kind `name_base`, "mangled" or
    "demangled"; `ranges` are NVTX expressions.
    """

    kernel: str | None = None
    kernel_id: str | None = None
    launch_skip: int = 0
    launch_count: int | None = None
    ranges: tuple[str, ...] = ()
    processes: str | None = None
    name_base: str = "demangled"

    def options(self) -> list[str]:
        """Return the options that select launches."""
        options = ["--kernel-name-base", self.name_base]
        if self.kernel_id is not None:
            options += ["--kernel-id", self.kernel_id, "--filter-mode", "per-launch-config"]
        if self.kernel is not None:
            options += ["--kernel-name", f"regex:{self.kernel}"]
        if self.launch_skip:
            options += ["--launch-skip", str(self.launch_skip)]
        if self.launch_count is not None:
            options += ["--launch-count", str(self.launch_count)]
        for expression in self.ranges:
            options += ["--nvtx-include", expression]
        if self.processes is not None:
            options += ["--target-processes-filter", self.processes]
        return options


@dataclass(frozen=True, slots=True)
class NcuCommand:
    """One run of a program under ncu. `output` ends in `.ncu-rep`: releases differ in what they add."""

    ncu: Path
    program: tuple[str, ...]
    output: Path
    log: Path
    metrics: tuple[str, ...]
    sections: tuple[str, ...] = ()
    stock_set: str | None = None
    source: bool = False
    filters: Filters = field(default_factory=Filters)
    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    targets: str = "all"
    graphs: str = "node"
    kill: bool = False
    from_start: bool = True
    """Off: nothing is profiled before the program calls cudaProfilerStart, nor after cudaProfilerStop."""
    source_folders: tuple[Path, ...] = ()
    """Where `source` looks for files that the program's debug information names without a folder."""

    def argv(self) -> list[str]:
        """Return the words to execute."""
        yes = {True: "yes", False: "no"}
        words = [
            str(self.ncu), "--config-file", "off",
            "--clock-control", self.clock_control, "--cache-control", self.cache_control,
            "--replay-mode", self.replay_mode, "--target-processes", self.targets,
            "--graph-profiling", self.graphs, "--nvtx", "--import-source", yes[self.source],
            "--check-exit-code", "yes", "--kill", yes[self.kill], "--apply-rules", yes[self.stock_set is not None],
            *self.filters.options(),
        ]  # fmt: skip
        if self.stock_set is not None:
            words += ["--set", self.stock_set]
        for section in self.sections:
            words += ["--section", section]
        if not self.from_start:
            words += ["--profile-from-start", "off"]
        if self.source_folders:
            words += ["--source-folders", ",".join(map(str, self.source_folders))]
        if self.metrics:
            words += ["--metrics", ",".join(self.metrics)]
        return [*words, "--log-file", str(self.log), "--export", str(self.output), "--force-overwrite", *self.program]

    def shell(self) -> str:
        """Return the command as one line that a POSIX shell runs as it is."""
        return shell_line(self.argv())


def shell_line(words: Sequence[str]) -> str:
    """Quote words for a POSIX shell; line breaks within a word stay on the line as `$'…'`."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = "".join(
        char
        if char.isprintable() and char not in "'\\"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in word
    )
    return f"$'{escaped}'"
