"""The two sides of `gpuprof compare`: BASE NEW, `--base A B --new C`, or two programs behind `--run --`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from gpuprof.cli.completion import PROGRAM, comparable_files
from gpuprof.cli.help import WithExamples
from gpuprof.cli.options import AboveZero, Command
from gpuprof.cli.output import to_type
from gpuprof.errors import UsageError

_OF_SIDES = ("--base", "--new")
_BETWEEN = "---"
"""What stands between the two programs."""
_HOW_TO_RUN = "gpuprof compare --run -- ./base 4096 --- ./new 4096"
_TWO = "gpuprof compare base.ncu-rep new.ncu-rep"
_SEVERAL = "gpuprof compare --base BASE... --new NEW..."


class SideFiles(NamedTuple):
    """The files of both sides, each a run of a program."""

    base: tuple[str, ...]
    new: tuple[str, ...]


class Programs(NamedTuple):
    """The command lines that --run measures."""

    base: tuple[str, ...]
    new: tuple[str, ...]


class TakesSides(WithExamples):
    """A command of two sides: --base and --new take files up to the next option; behind --run -- are two programs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the programs out of the words, and write each file behind its option."""
        place = args.index("--") if "--" in args else len(args)
        if "--run" in args[:place]:
            ctx.meta[PROGRAM] = tuple(args[place + 1 :])
            args = args[:place]
        if _BETWEEN in args[:place] and not ctx.resilient_parsing:
            raise UsageError(f"{_BETWEEN} stands between two programs, and they stand behind --run --", _HOW_TO_RUN)
        return super().parse_args(ctx, _spread(args, ctx))


def naming_sides(function: Command) -> Command:
    """BASE and NEW, --base, --new, --run, --budget, --match, --kernel: what is compared with what."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.argument("files", nargs=-1, metavar="BASE NEW", shell_complete=comparable_files),
        _files_of("--base", "Files of the base, each a run, up to the next option."),
        _files_of("--new", "Files of the new side, each a run, up to the next option."),
        click.option("--run", is_flag=True, help="Profile two programs here: --run -- ./base ARGS --- ./new ARGS."),
        click.option(
            "--budget", "budget_s", type=AboveZero(), metavar="SECONDS", help="Wall time of --run. Default: 300."
        ),
        click.option(
            "--match",
            multiple=True,
            metavar="OLD=NEW",
            help="Kernels that belong together: REGEX=REGEX, or #N=#N. Repeatable.",
        ),
        click.option(
            "--kernel",
            "kernels",
            multiple=True,
            metavar="REGEX|#N",
            help="Only kernels whose name matches on a side, or number N, in depth. Repeatable.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _files_of(option: str, what: str) -> Callable[[Command], Command]:
    return click.option(option, multiple=True, metavar="FILE...", shell_complete=comparable_files, help=what)


def _spread(args: Sequence[str], ctx: click.Context) -> list[str]:
    """Return `--base a --base b` for `--base a b`: an option's files end where the next option begins."""
    spread: list[str] = []
    option, files = None, 0
    for place, word in enumerate(args):
        ends = word.startswith("-") and word != "-"
        if ends and option is not None and not files and not ctx.resilient_parsing:
            raise _without_files(option, ctx)
        if word == "--":
            return [*spread, *args[place:]]
        name, equals, value = word.partition("=")
        if name in _OF_SIDES:
            option, files = name, 1 if equals else 0
            spread += [name, value] if equals else []
        elif ends or option is None:
            option = None
            spread.append(word)
        else:
            files += 1
            spread += [option, word]
    if option is not None and not files:
        if not ctx.resilient_parsing:
            raise _without_files(option, ctx)
        spread.append(option)
    return spread


def _without_files(option: str, ctx: click.Context) -> click.BadOptionUsage:
    return click.BadOptionUsage(option, f"Option '{option}' requires an argument.", ctx)


def sides_of(files: Sequence[str], base: Sequence[str], new: Sequence[str]) -> SideFiles:
    """Return the files of each side. Raises UsageError if it is not said which is which."""
    if files and (base or new):
        option = "--base" if base else "--new"
        raise UsageError(f"{files[0]:.100} and {option}: files are named in one of two ways", _SEVERAL)
    if bool(base) != bool(new):
        given, missing = ("--base", "--new") if base else ("--new", "--base")
        raise UsageError(f"{given} has {_files(base or new)}, and {missing} is missing", _SEVERAL)
    if not base:
        if len(files) != 2:
            raise _not_two(files)
        base, new = files[:1], files[1:]
    if (*base, *new).count("-") > 1:
        raise UsageError("- stands for two files, and standard input has one", "save one of them as a file")
    return SideFiles(tuple(base), tuple(new))


def _not_two(files: Sequence[str]) -> UsageError:
    if not files:
        return UsageError("gpuprof compare needs BASE and NEW", _TWO)
    if len(files) == 1:
        return UsageError("gpuprof compare needs NEW", f"gpuprof compare {to_type(files)} new.ncu-rep")
    first, *rest = (to_type([file]) for file in files)
    return UsageError(
        f"gpuprof compare takes BASE and NEW, and {len(files)} files were named",
        f"several files a side: gpuprof compare --base {first} --new {' '.join(rest)}",
    )


def _files(files: Sequence[str]) -> str:
    return f"{files[0]:.100}" if len(files) == 1 else f"{len(files)} files"


def programs_of(line: Sequence[str]) -> Programs:
    """Return the two command lines behind --run --. Raises UsageError if one is missing, or there are more."""
    how = _HOW_TO_RUN
    if not line:
        raise UsageError("--run needs two programs behind --", how)
    parts: list[list[str]] = [[]]
    for word in line:
        if word == _BETWEEN:
            parts.append([])
        else:
            parts[-1].append(word)
    if len(parts) == 1:
        raise UsageError("--run has one program, and needs two with --- between them", how)
    if len(parts) > 2 or not all(parts):
        what = "more than two programs" if len(parts) > 2 else "no program on one side of ---"
        raise UsageError(f"--run has {what}", how)
    return Programs(tuple(parts[0]), tuple(parts[1]))
