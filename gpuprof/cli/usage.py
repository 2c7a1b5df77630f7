"""Click's errors in our words: what is wrong with the command line, how it is used, what to type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import click

from gpuprof.cli.help import ARGUMENTS, EXAMPLES

_OF_READING = ("show", "report")
_LIKENESS = 0.7
"""From here on an option is taken for one that was mistyped."""
_NEEDS = {"files": "a file", "program": "a program"}


class Wrong(NamedTuple):
    """What to print of a wrong command line."""

    message: str
    hint: str
    usage: str | None = None


def wrong(error: click.ClickException) -> Wrong:
    """Return what to say of an error of click's."""
    if isinstance(error, click.NoSuchOption):
        return _no_option(error)
    if isinstance(error, click.MissingParameter):
        return _missing(error)
    if isinstance(error, click.BadOptionUsage):
        return _without_value(error)
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _bad_value(error, error.param)
    return _other(error)


def _no_option(error: click.NoSuchOption) -> Wrong:
    """Say what an unknown option is: one of ncu, one of a command, or nearly one of ours."""
    option, context = error.option_name, error.ctx
    message = f"{_path(context)} has no option {option}"
    if context is not None and isinstance(context.command, click.Group):
        return Wrong(message, _of_group(option, context))
    hint = _of_ncu(option, context)
    if hint is not None:
        return Wrong(message, hint)
    other = _elsewhere(option, context)
    if other is not None:
        return Wrong(message, f"{other} has it")
    near = _near(option, sorted(_shown(context)), _LIKENESS)
    return Wrong(message, f"did you mean {near[0]}?" if near else _help(context))


def _elsewhere(option: str, context: click.Context | None) -> str | None:
    """Return another command for reports that has an option."""
    group = context.parent.command if context is not None and context.parent is not None else None
    if context is None or context.parent is None or context.info_name not in _OF_READING or group is None:
        return None
    assert isinstance(group, click.Group)
    for name in _OF_READING:
        command = group.get_command(context.parent, name)
        if command is not None and any(option in param.opts for param in command.params):
            return f"{context.parent.command_path} {name}"
    return None


def _of_ncu(option: str, context: click.Context | None) -> str | None:
    """Return what to type for an option of ncu that a command does not have."""
    from gpuprof.cli.ncu_options import OF_PROFILING, OF_READING

    name = context.command.name if context is not None else None
    if name in _OF_READING:
        imported = _value_of(option, context) if option in ("-i", "--import") else None
        return f"gpuprof {name} {imported or 'FILE'}" if option in ("-i", "--import") else OF_READING.get(option)
    return OF_PROFILING.get(option) if name in ("run", "roofline") else None


def _of_group(option: str, context: click.Context) -> str:
    """Return what to say of an option before the command: it follows the command that has it."""
    from gpuprof.cli.ncu_options import OF_PROFILING

    if option in ("-i", "--import"):
        return f"gpuprof show {_value_of(option, context) or 'FILE'}"
    if option == "-m":
        return OF_PROFILING[option]
    group = context.command
    assert isinstance(group, click.Group)
    if option.lstrip("-") in group.list_commands(context):
        return f"did you mean: {context.command_path} {option.lstrip('-')}"
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and any(option in param.opts for param in command.params):
            return f"options follow the command: {context.command_path} {name} {option}"
    near = _near(option, ["--version", "--help"], _LIKENESS)
    return f"did you mean {near[0]}?" if near else _help(context)


def _missing(error: click.MissingParameter) -> Wrong:
    """Say what is missing, with how the command is used and an example."""
    context, param = error.ctx, error.param
    name = param.name if param is not None and param.name else "an argument"
    what = _NEEDS.get(name, name.upper() if isinstance(param, click.Argument) else _option_name(param))
    examples = EXAMPLES.get(_path(context).removeprefix("gpuprof "), ())
    return Wrong(f"{_path(context)} needs {what}", examples[0] if examples else _help(context), _usage(context))


def _without_value(error: click.BadOptionUsage) -> Wrong:
    if "does not take a value" in error.message:
        return Wrong(f"{error.option_name} takes no value", "leave out = and what follows it")
    params = error.ctx.command.params if error.ctx is not None else []
    param = next((param for param in params if error.option_name in param.opts), None)
    return Wrong(f"{error.option_name} needs a value", _values(param) if param is not None else _help(error.ctx))


def _bad_value(error: click.BadParameter, param: click.Parameter) -> Wrong:
    """Say which value an option cannot have, and which it can."""
    from gpuprof.cli.ncu_options import OF_VALUES

    name = _option_name(param)
    if match := re.match(r"\w+ '(.*)' is a (file|directory)\.", error.message):
        kind, other = ("file", "folder") if match[2] == "file" else ("folder", "file")
        return Wrong(f"{name} {match[1]} is a {kind}", f"name a {other}")
    match = re.match(r"'?(.*?)'? is not (one of|a valid|in the range|')", error.message, re.DOTALL)
    if match is None:
        return Wrong(f"{name}: {_plain(error.message)}", _help(error.ctx))
    value = match[1].removesuffix(".0")
    if (name, value) in OF_VALUES:
        return Wrong(f"{_path(error.ctx)} has no {name} {value}", OF_VALUES[name, value])
    problem = {"a valid": "not a number", "in the range": "out of range"}.get(match[2], "no such choice")
    return Wrong(f"{name} {value}: {problem}", _values(param))


def _values(param: click.Parameter) -> str:
    """Return which values a parameter takes."""
    name, kind = _option_name(param), param.type
    if isinstance(kind, click.Choice):
        return f"choose one of {', '.join(map(str, kind.choices))}"
    number = "a whole number" if isinstance(kind, click.types.IntParamType) else "a number"
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        return f"{name} takes {number}{_range(kind)}"
    if isinstance(kind, (click.types.IntParamType, click.types.FloatParamType)):
        return f"{name} takes {number}"
    metavar = param.metavar if isinstance(param, click.Option) and param.metavar else kind.name.upper()
    return f"{name} {metavar}"


def _range(kind: click.IntRange | click.FloatRange) -> str:
    """Write the bounds of a number: ", 0 or more", " above 0, at most 100"."""
    least = "" if kind.min is None else f" above {kind.min:g}" if kind.min_open else f", {kind.min:g} or more"
    most = "" if kind.max is None else f", below {kind.max:g}" if kind.max_open else f", at most {kind.max:g}"
    return least + most


def _no_subcommand(name: str, context: click.Context | None) -> Wrong:
    command = context.command if context is not None else None
    names = command.list_commands(context) if context is not None and isinstance(command, click.Group) else []
    near = _near(name, names)
    hint = f"did you mean: {_path(context)} {near[0]}" if near else f"its commands: {', '.join(names)}"
    return Wrong(f"{_path(context)} has no command {name}", hint)


def _other(error: click.ClickException) -> Wrong:
    """Say what click says of what has no class of its own."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if match := re.match(r"No such command '(.*?)'", message):
        return _no_subcommand(match[1], context)
    if match := re.match(r"Got unexpected extra arguments? \((.*)\)", message):
        return Wrong(f"unexpected argument: {match[1]}", _help(context), _usage(context))
    return Wrong(_plain(message), _help(context))


def _near(name: str, names: Sequence[str], likeness: float = 0.6) -> list[str]:
    """Return the name that was probably meant."""
    from difflib import get_close_matches

    return get_close_matches(name, names, n=1, cutoff=likeness)


def _option_name(param: click.Parameter | None) -> str:
    """Return the name by which an option is known best; of an argument, what stands for it."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return (param.name or "").upper() if param is not None else "an argument"


def _value_of(option: str, context: click.Context | None) -> str | None:
    """Return the word that follows an option on the command line, as it can be typed."""
    from gpuprof.cli.output import to_type

    arguments: Sequence[str] = context.meta.get(ARGUMENTS, ()) if context is not None else ()
    following = arguments[arguments.index(option) + 1 :] if option in arguments else ()
    return to_type(following[:1]) if following else None


def _shown(context: click.Context | None) -> set[str]:
    return {name for param in context.command.params for name in param.opts} if context is not None else set()


def _path(context: click.Context | None) -> str:
    return context.command_path if context is not None else "gpuprof"


def _help(context: click.Context | None) -> str:
    return f"{_path(context)} --help lists the options"


def _usage(context: click.Context | None) -> str | None:
    return context.get_usage().partition(": ")[2] if context is not None else None


def _plain(message: str) -> str:
    """Return a sentence of click's as part of one of ours."""
    text = message.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
