"""What a shell completes beside commands and options: files that can be read, programs, names of specs.

`_GPUPROF_COMPLETE=bash_source gpuprof` prints what a shell is told, as click has it for each shell; in bash, folders
and names with spaces are completed as bash does itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.working_folder import programs_path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "gpuprof.program"
"""Where the context of a command holds the program to profile, if there is one."""
_BASH = """\
%(complete_func)s() {
    local response type value
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            file) compopt -o default ;;
            dir) compopt -o filenames -o plusdirs ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(IFS=$'\\n'; COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


def prepare() -> None:
    """Complete for bash without click's check of its version, which runs the bash on PATH."""
    os.environ["PATH"] = programs_path(os.environ)

    from click import shell_completion

    class Bash(shell_completion.BashComplete):
        """As click's, but that a folder is no end of a word and a space in a name no end of it."""

        source_template = _BASH

    shell_completion.add_completion_class(Bash, "bash")


def readable_files(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the files that can be read, and folders; any file behind --, which is a program."""
    from click.shell_completion import CompletionItem

    if PROGRAM in context.meta:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(incomplete, type="dir"), *map(CompletionItem, _files(incomplete))]


def comparable_files(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the files that can be read, and those of measured GPUs."""
    from click.shell_completion import CompletionItem

    measured = [] if PROGRAM in context.meta else _names(incomplete, lambda name: name.endswith(".measured.yaml"))
    return [*readable_files(context, param, incomplete), *map(CompletionItem, measured)]


_WITH_CODE = (".cu", ".ptx", ".cubin", ".fatbin", ".o", ".so", ".a", ".ncu-rep", ".ncu-repz")


def checkable_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the files that have GPU code by their endings, and folders."""
    from click.shell_completion import CompletionItem

    files = _names(incomplete, lambda name: name.lower().endswith(_WITH_CODE))
    return [CompletionItem(incomplete, type="dir"), *map(CompletionItem, files)]


def architectures(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of architectures, the last one of a list."""
    from click.shell_completion import CompletionItem

    from gpuprof.hardware.library import SpecLibrary

    before, comma, begun = incomplete.rpartition(",")
    names = [path.stem for path in SpecLibrary().arch_files()]
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(begun)]


def any_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete whatever file there is."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def spec_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of GPU specs; a word with a slash is a file."""
    from click.shell_completion import CompletionItem

    from gpuprof.hardware.library import SpecLibrary

    if os.sep in incomplete:
        return [CompletionItem(incomplete, type="file")]
    names = sorted({path.stem for path in SpecLibrary().gpu_files()})
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def survey_sources(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the tools that make a survey, and the files that can be one."""
    from click.shell_completion import CompletionItem

    from gpuprof.collect.survey_tools import TOOLS

    tools = [CompletionItem(tool) for tool in TOOLS if tool.startswith(incomplete)]
    return [*tools, CompletionItem(incomplete, type="dir"), *map(CompletionItem, _files(incomplete))]


def _files(incomplete: str) -> Iterator[str]:
    """Yield the files that begin so and end as files do that can be read, as they are to be typed."""
    from gpuprof.read.readers import has_name_of_a_file

    return _names(incomplete, has_name_of_a_file)


def _names(incomplete: str, is_meant: Callable[[str], bool]) -> Iterator[str]:
    head, start = os.path.split(incomplete)
    try:
        folder = Path(head or os.curdir).expanduser()
        names = sorted(entry.name for entry in os.scandir(folder) if not os.path.isdir(entry))  # noqa: PTH112
    except (OSError, RuntimeError):
        return
    for name in names:
        fits = name.startswith(start) and (start or not name.startswith("."))
        if fits and is_meant(name) and name.isprintable():
            yield os.path.join(head, name)  # noqa: PTH118
