"""The measuring half of `gpuprof characterize`: opens the GPU, follows the run, prints and writes what was found."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.output import print_product, write_files
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import EnvironmentProblem, Interrupted
from gpuprof.needed_packages import refuse_missing_packages
from gpuprof.text import printable

if TYPE_CHECKING:
    from gpuprof.characterize.characterization import Characterization, Wanted
    from gpuprof.characterize.on_gpu.served_gpu import ServedGpu


def measure(wanted: Wanted, html: Path | None, form: str) -> int:
    """Measure a GPU; return 0, or what a shell makes of the signal that ended it. What was measured is written."""
    from gpuprof.characterize.characterization import characterize
    from gpuprof.characterize.present.live import LiveLines
    from gpuprof.characterize.record.gpu import Stopped
    from gpuprof.views.terminal import make_talk_console

    refuse_missing_packages()
    if html is not None:
        refuse_overwrite([html], force=wanted.force or wanted.resume)
    live = LiveLines(make_talk_console())
    with _stoppable() as stop:
        try:
            with closing(_opened(wanted.device, stop.asked)) as gpu:
                run = characterize(gpu, wanted, tell=live, stop=stop.asked)
        except Stopped:
            click.echo("interrupted before anything was measured", err=True)
            return stop.exit_code
        finally:
            live.close()
    _show(run, html, form)
    return _ended(run, stop)


class _Stop:
    """Whether the user asked to stop, and the exit code for that. A second request ends the program at once."""

    def __init__(self) -> None:
        self.wanted = False
        self.exit_code = Interrupted.exit_code

    def asked(self) -> bool:
        return self.wanted

    def ask(self, which: int, _: object) -> None:
        self.exit_code = 128 + which
        if self.wanted:
            os._exit(self.exit_code)
        self.wanted = True


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    """Let the first Ctrl-C end the run between two launches, so that its file is written; the second ends all.

    So does SIGTERM, by which a batch system or `timeout` ends what has used up its time, and SIGHUP, by which a
    terminal does that is closed.
    """
    stop = _Stop()
    before = {
        which: handler
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(which)) is not signal.SIG_IGN
    }
    for which in before:
        signal.signal(which, stop.ask)
    try:
        yield stop
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _opened(index: int, stop: Callable[[], bool]) -> ServedGpu:
    """Open a GPU in a process of its own. Where there is none at all, that is the message, not what to install."""
    from gpuprof.characterize.on_gpu.served_gpu import ServedGpu
    from gpuprof.collect.machine import Machine, gpus_here

    try:
        return ServedGpu(index, stop)
    except EnvironmentProblem as problem:
        if gpus_here(os.environ) or Machine().driver() is not None:
            raise
        raise EnvironmentProblem(
            "no NVIDIA GPU to measure on this machine", "--compile-only checks the kernels without a GPU"
        ) from problem


def _show(run: Characterization, html: Path | None, form: str) -> None:
    """Print the sheet or its JSON to stdout, write the page, and say where the files are."""
    from gpuprof.characterize.present.page.render import render_measured_html
    from gpuprof.characterize.present.view import view_of
    from gpuprof.characterize.probes.library import load_probes, probe_folder
    from gpuprof.characterize.sheet.normal import assess

    titles = {probe.id: probe.title for probe in load_probes(probe_folder())}
    view = view_of(run.measured, assess(run.measured, run.published(), run.product), titles)
    print_product("measured", form, view)
    if html is not None:
        write_files({html: render_measured_html(view).encode()}, through_links=True)
        click.echo(printable(f"page: {html}"), err=True)
    click.echo(f"measured: {printable(str(run.path))}\nsamples: {printable(str(run.samples))}", err=True)


def _ended(run: Characterization, stop: _Stop) -> int:
    from gpuprof.characterize.runner import INTERRUPTED

    if run.outcome.cut_short is None:
        return 0
    # While ncu runs, Ctrl-C is not heard here: what started ncu says so.
    if stop.wanted or run.outcome.cut_short == INTERRUPTED:
        click.echo("interrupted: --resume measures what is missing", err=True)
        return stop.exit_code
    raise EnvironmentProblem(f"{run.outcome.cut_short}", "--resume continues after the probe that ended it")
