"""Options that a configuration file sets where the command line does not, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.compare_measured import is_measured
from gpuprof.cli.completion import PROGRAM
from gpuprof.cli.help import ARGUMENTS
from gpuprof.cli.options import Command

if TYPE_CHECKING:
    from gpuprof.cli.config_file import Config

_CONFIG = "gpuprof.config"
_OF_PROGRAM = ("set", "coverage")
"""Keys that count only where a program is profiled."""


def configured(*keys: str) -> Callable[[Command], Command]:
    """Let these keys of the configuration be defaults of a command, and add --no-config; it stands nearest to it."""

    def load(context: click.Context, _: click.Parameter, without: bool) -> None:
        if without or context.resilient_parsing:
            return
        import os

        from gpuprof.cli.config_file import KEYS, find_config

        config = find_config(os.environ)
        if config is None:
            return
        context.meta[_CONFIG] = config
        used = {KEYS[key].parameter: value for key, value in config.values.items() if key in _used(context, keys)}
        context.default_map = {**(context.default_map or {}), **used}

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(*args: Any, **values: Any) -> object:
            _tell(click.get_current_context())
            return function(*args, **values)

        option = click.option(
            "--no-config",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=load,
            help="Ignore gpuprof.toml and pyproject.toml.",
        )
        return option(command)  # type: ignore[return-value]

    return decorate


def _used(context: click.Context, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys that count; of a command that also reads files, those of a program only if there is one."""
    if context.command.name in ("roofline", "compare") and PROGRAM not in context.meta:
        keys = tuple(key for key in keys if key not in _OF_PROGRAM)
    measured = context.command.name == "compare" and any(map(is_measured, context.meta.get(ARGUMENTS, ())))
    return () if measured else keys


def _tell(context: click.Context) -> None:
    """Say on stderr what was taken from the configuration, if anything was."""
    config: Config | None = context.meta.get(_CONFIG)
    parts = ", ".join(_taken(context, config)) if config is not None else ""
    if config is not None and parts:
        from gpuprof.text import printable

        click.echo(printable(f"from {config.name}: {parts}"), err=True)


def _taken(context: click.Context, config: Config) -> Iterator[str]:
    from gpuprof.cli.config_file import KEYS

    for key, value in config.values.items():
        if context.get_parameter_source(KEYS[key].parameter) is not click.core.ParameterSource.DEFAULT_MAP:
            continue
        if isinstance(value, list):
            what = "pattern" if key == "exclude" else "limit"
            yield f"{key} {len(value)} {what}{'' if len(value) == 1 else 's'}"
        else:
            yield f"{key} {value}"
