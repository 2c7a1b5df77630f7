"""`gpuprof characterize`: micro-kernels that measure a GPU; without one, whether their code is what they mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import Destination, format_option, only_one
from gpuprof.cli.output import print_product
from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe


@click.command("characterize")
@click.option("--quick", "mode", flag_value="quick", help="Measure the main ceilings only, in about a minute.")
@click.option(
    "--full", "mode", flag_value="full", help="Measure everything, with atomics, TLB and maps, in at most 25 minutes."
)
@click.option("--only", multiple=True, metavar="FAMILY[/NAME]", help="Measure only these probes. Repeatable.")
@click.option(
    "--device", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="CUDA device number."
)
@click.option(
    "-o",
    "--output",
    type=Destination(path_type=Path),
    multiple=True,
    callback=only_one,
    metavar="FILE",
    help="Write to FILE, NAME.measured.yaml. Default: in the user's spec folder, where profiles of this GPU find it.",
)
@click.option("--html", type=Destination(path_type=Path), metavar="FILE", help="Also write a page with the curves.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run: measure what is missing.")
@click.option(
    "--force", is_flag=True, help="Replace existing files, and measure even if other processes keep the GPU busy."
)
@click.option("--verify-counters", "counters", is_flag=True, help="Let ncu count what the kernels do, and compare.")
@click.option("--compile-only", is_flag=True, help="Compile and check the kernels; needs no GPU.")
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="SM",
    help="With --compile-only: target, such as sm_90a. Repeatable. Default: all.",
)
@click.option("--list", "list_only", is_flag=True, help="List the probes.")
@format_option("measured")
def command(
    mode: str | None,
    only: tuple[str, ...],
    device: int,
    output: Path | None,
    html: Path | None,
    resume: bool,
    force: bool,
    counters: bool,
    compile_only: bool,
    archs: tuple[str, ...],
    list_only: bool,
    form: str,
) -> int:
    """Measure this GPU with micro-kernels, in at most six minutes.

    Each kernel's machine code is checked before it is timed. The values go into NAME.measured.yaml with a verdict and
    its evidence; profiles of the same GPU use them as ceilings. Ctrl-C ends the run and keeps what was measured.

    With --compile-only, compile every kernel for every architecture, disassemble it, and check that its loop holds
    the instructions that the probe needs. Exit code 1 if a kernel fails that check.
    """
    from gpuprof.characterize.probes.library import load_probes, probe_folder, select

    every = load_probes(probe_folder())
    probes = select(every, only)
    if list_only:
        print_product("probes", form, probes)
        return 0
    if compile_only:
        return _check(probes, archs, form)
    if archs:
        raise UsageError("--arch needs --compile-only", "leave out --arch: a GPU is measured for its own architecture")
    from gpuprof.characterize.characterization import Wanted
    from gpuprof.cli.measuring import measure

    wanted = Wanted(
        probes,
        mode or "default",
        named=len(probes) < len(every),
        loads=every,
        output=output,
        resume=resume,
        force=force,
        counters=counters,
        device=device,
    )
    return measure(wanted, html, form)


def _check(probes: Sequence[Probe], archs: tuple[str, ...], form: str) -> int:
    from gpuprof.characterize.gates.table import gate_table

    rows = gate_table(probes, _targets(archs), tell=_progress())
    print_product("code-checks", form, rows)
    failed = sum(row.judgement.gate == "fail" for row in rows)
    unseen = sum(row.judgement.gate is None for row in rows)
    counts = [f"{failed} failed"] * bool(failed) + [f"{unseen} compiled but not checked"] * bool(unseen)
    click.echo(", ".join([f"{len(rows)} kernel builds", *counts]), err=True)
    return 1 if failed else 0


def _progress() -> Callable[[int, int], None] | None:
    """Return what keeps one line of stderr up to date, where somebody watches."""
    if not sys.stderr.isatty():
        return None

    def tell(done: int, total: int) -> None:
        text = f"\r{done} of {total} kernels compiled" if done < total else "\r\x1b[K"
        click.echo(text, nl=False, err=True)

    return tell


def _targets(archs: tuple[str, ...]) -> tuple[str, ...]:
    from gpuprof.characterize.probes.probe import all_targets, target_named

    named = [target_named(arch) for arch in archs]
    for arch, target in zip(archs, named, strict=True):
        if target is None:
            raise UsageError(f"unknown target: --arch {arch}", f"choose from: {', '.join(all_targets())}")
    return tuple(dict.fromkeys(target for target in named if target)) or all_targets()
