"""`gpuprof specs list|show|check|match`: the hardware database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.completion import readable_files, spec_names
from gpuprof.cli.options import format_option, salvaging
from gpuprof.cli.output import print_product
from gpuprof.errors import InputError, SpecError
from gpuprof.hardware.library import SpecLibrary, load_gpu
from gpuprof.hardware.parse import ARCH_NAME
from gpuprof.hardware.specs import ArchSpec, ComputeKey, Fact, GpuSpec, compute_rates
from gpuprof.text import printable
from gpuprof.views import document as doc
from gpuprof.views.specs import match_blocks

if TYPE_CHECKING:
    from gpuprof.hardware.device import RecordedDevice

_form = format_option("specs")


@click.group("specs")
def command() -> None:
    """List, show, check and match hardware specs.

    Specs are searched in $GPUPROF_SPECS (default: gpuprof/specs in the user's config folder), then in the package.
    """


@command.command("list")
@_form
def list_(form: str) -> None:
    """List products and architectures with their main numbers."""
    library = SpecLibrary()
    print_product("specs", form, tuple(_readable_gpus(library)), tuple(_readable_archs(library)))


def _readable_gpus(library: SpecLibrary) -> Iterator[GpuSpec]:
    for path in library.gpu_files():
        try:
            yield load_gpu(path)
        except SpecError as error:
            _left_out(error)


def _readable_archs(library: SpecLibrary) -> Iterator[ArchSpec]:
    for path in library.arch_files():
        try:
            arch = library.arch(path.stem)
        except SpecError as error:
            _left_out(error)
        else:
            if arch is not None:
                yield arch


def _left_out(error: SpecError) -> None:
    click.echo(f"skipped: {printable(error.message)}", err=True)


@command.command("show")
@click.argument("name", shell_complete=spec_names)
@_form
def show(name: str, form: str) -> None:
    """Show what is known about a product or an architecture.

    NAME is a product's spec name, title or device name, or an architecture such as sm_90.
    """
    library = SpecLibrary()
    arch = library.arch(name)
    if arch is not None:
        print_product("spec", form, arch)
        return
    if ARCH_NAME.fullmatch(name):
        known = ", ".join(path.stem for path in library.arch_files())
        raise InputError(f"no spec for the architecture {name}", f"choose from: {known}")
    gpu = library.gpu(name)
    print_product("spec", form, gpu, _rates(library, gpu))


def _rates(library: SpecLibrary, gpu: GpuSpec) -> Mapping[ComputeKey, Fact]:
    arch = library.arch(gpu.arch)
    if arch is None:
        click.echo(f"no spec for {gpu.arch}: rates per SM are unknown", err=True)
        return {}
    return compute_rates(arch, gpu)


@command.command("check")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check FILEs, or all specs.

    Prints FILE:LINE: SEVERITY: MESSAGE. Exit code 5 if there are errors.
    """
    from gpuprof.hardware.check import check_files, check_library

    library = SpecLibrary()
    result = check_files(files, library) if files else check_library(library)
    for finding in result.findings:
        click.echo(printable(str(finding)))
    errors, warnings = result.count("error"), result.count("warning")
    click.echo(
        f"{_plural(result.files, 'file')}, {_plural(errors, 'error')}, {_plural(warnings, 'warning')}; "
        f"{result.unconfirmed} of {result.facts} facts are unconfirmed",
        err=True,
    )
    if errors:
        raise SpecError(f"{_plural(errors, 'error')} in {_plural(result.files, 'spec file')}")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@command.command("match")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...", shell_complete=readable_files)
@salvaging
def match(reports: tuple[str, ...], salvage: bool) -> None:
    """Show which spec matches the GPUs of REPORTs.

    Says why, and where a report and its spec differ.
    """
    from gpuprof.views.terminal import make_console, print_document

    library = SpecLibrary()
    blocks: list[doc.Block] = []
    for report in reports:
        blocks.append(doc.Heading(report))
        devices = _devices(report, salvage=salvage)
        for device in devices:
            blocks += _matched(library, device)
        if not devices:
            blocks.append(doc.Note("names no GPU"))
    print_document(make_console(), doc.Document("specs", tuple(blocks)))


def _matched(library: SpecLibrary, device: RecordedDevice) -> Iterator[doc.Block]:
    spec = library.match(device)
    arch = None
    if spec is None and device.compute_capability:
        arch = library.arch_of(device.compute_capability)
    return match_blocks(device, spec, arch)


def _devices(name: str, *, salvage: bool) -> tuple[RecordedDevice, ...]:
    """Return the GPUs of a report or a timeline, or those of a session as far as it keeps them."""
    from gpuprof.hardware.device import RecordedDevice
    from gpuprof.model.session import Session
    from gpuprof.read.files import read_file

    file = read_file(name, salvage=salvage)
    if not isinstance(file, Session):
        return file.devices
    return tuple(
        RecordedDevice(name=device.name, compute_capability=device.compute_capability, sm_count=device.sm_count)
        for device in file.devices
    )
