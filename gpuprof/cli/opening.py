"""`--open`: what a command has written is opened in the browser; where that cannot be done, it is said."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from gpuprof.cli.options import Command
from gpuprof.errors import UsageError


def opening(function: Command) -> Command:
    """--open, as `in_browser`: open the page that was written."""
    return click.option("--open", "in_browser", is_flag=True, help="Open the page in the browser.")(function)


def open_page(written: Iterable[Path]) -> None:
    """Open the page among the files that were written, or the first of them; say so where it cannot be opened."""
    import os

    from gpuprof.collect.browser import open_in_browser
    from gpuprof.text import printable

    files = list(written)
    page = next((path for path in files if path.suffix.lower() == ".html"), files[0])
    why = open_in_browser(page, os.environ)
    if why is not None:
        click.echo(printable(f"{page} is not opened: {why}"), err=True)


def refuse_nothing_to_open(*, in_browser: bool, instead: str | None) -> None:
    """Raise UsageError where an option asks for no page."""
    if in_browser and instead is not None:
        raise UsageError(f"--open and {instead} cannot be combined", f"leave --open or {instead} out")
