"""The terminal view: run header, kernel table, and the depth of single kernels. Colour only on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.model.session import KernelProfile, Session, Traffic
from gpuprof.model.summary import main_point, stalls_of
from gpuprof.present import words
from gpuprof.present.text import printable
from gpuprof.units import format_binary, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_LEAST_WIDTH = 60
_WIDE = 100
_NARROW_HEADS = {"nearest limit": "limit", "occupancy": "occ."}
_PIPED_WIDTH = 80
_STALLS_SHOWN = 5
_NAME_SHOWN = 150


def make_console() -> Console:
    """Return a console for stdout: 80 columns when piped, no colour then or with NO_COLOR."""
    from rich.console import Console

    if not os.environ.get("COLUMNS", "0").isascii():
        # "²" is a digit to rich, and no number to Python.
        del os.environ["COLUMNS"]
    fixed = not os.isatty(1) and "COLUMNS" not in os.environ
    console = Console(highlight=False, soft_wrap=False, width=_PIPED_WIDTH if fixed else None)
    if console.width < _LEAST_WIDTH:
        console = Console(highlight=False, width=_LEAST_WIDTH)
    return console


def print_session(console: Console, session: Session, kernels: list[KernelProfile], top: int, *, depth: bool) -> None:
    """Print the header, a table of the first `top` kernels (0: all) and, with `depth`, every figure of each of them.

    The kernels come in the order in which they are to be shown.
    """
    for block in _blocks(console, session, kernels, top, depth=depth):
        console.print(block)


def _unicode(console: Console) -> bool:
    return "utf" in (console.encoding or "").lower()


def _blocks(
    console: Console, session: Session, kernels: list[KernelProfile], top: int, *, depth: bool
) -> Iterator[RenderableType]:
    from rich.text import Text

    yield from _header(session)
    shown = kernels[:top] if top else kernels
    yield _kernel_table(shown, console)
    if any(words.NOT_COLLECTED in (words.roof_text(kernel), words.limit_text(kernel)) for kernel in shown):
        yield Text("n/c: not collected; the report lacks the counters", style="dim")
    if any(words.roof_text(kernel).startswith("≥") for kernel in shown):
        yield Text("≥: tensor work was not collected, so the kernel may be closer to its roof", style="dim")
    if len(kernels) > len(shown):
        rest = sum(kernel.time_share or 0.0 for kernel in kernels[len(shown) :])
        share = f", {format_percent(rest)} of the time" if rest else ""
        yield Text(f"… and {len(kernels) - len(shown)} more{share}; --top 0 shows all", style="dim")
    details = shown if depth else shown[:1]
    for kernel in details:
        yield Text("")
        yield from _kernel_depth(kernel, whole_name=depth)
    if not depth and len(shown) > 1:
        yield Text("")
        yield Text("--kernel REGEX shows another kernel like this; gpuprof report FILE writes a page", style="dim")


def _header(session: Session) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(printable(words.verdict(session)), style="bold")
    for device in session.devices:
        yield Text(f"GPU     {printable(words.device_text(device))}", overflow="fold")
    for source in session.sources:
        yield Text(f"Report  {printable(source.file)}: {printable(words.source_text(source))}", overflow="fold")
        for warning in source.warnings:
            yield Text(f"warning: {printable(source.file)}: {printable(warning)}", style="yellow", overflow="fold")
    yield Text("")


def _kernel_table(kernels: list[KernelProfile], console: Console) -> Table:
    """One line or two per kernel; the label takes what width is left, the main stall only a wide terminal."""
    from rich import box
    from rich.table import Table

    wide = console.width >= _WIDE
    lines = box.SIMPLE_HEAD if _unicode(console) else box.ASCII_DOUBLE_HEAD
    table = Table(box=lines, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("kernel", ratio=1, overflow="fold", min_width=14)
    for name in ("time", "share", "nearest limit", "of roof", "occupancy"):
        table.add_column(name if wide else _NARROW_HEADS.get(name, name), justify="right", no_wrap=True)
    if wide:
        table.add_column("main stall", no_wrap=True)
    for kernel in kernels:
        table.add_row(*_table_cells(kernel, wide=wide))
    return table


def _table_cells(kernel: KernelProfile, *, wide: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    yield str(kernel.id)
    yield Text(printable(kernel.label))
    yield _short(words.duration(kernel.duration_s))
    yield _short(words.percent(kernel.time_share))
    yield _short(words.limit_text(kernel))
    yield _short(words.roof_text(kernel))
    if achieved is None and theoretical is not None:
        yield f"≤{words.percent(theoretical)}"
    else:
        yield _short(words.percent(achieved))
    if wide:
        yield Text(printable(_short(words.stall_text(kernel))))


def _short(text: str) -> str:
    """A table cell has no room for "not collected"; the kernel's own block says why."""
    return "n/c" if text == words.NOT_COLLECTED else text


def _kernel_depth(kernel: KernelProfile, *, whole_name: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(f"#{kernel.id} {printable(kernel.label)}", style="bold")
    if kernel.demangled != kernel.label:
        name = printable(kernel.demangled)
        cut = len(name) > _NAME_SHOWN and not whole_name
        yield Text(f"   {name[:_NAME_SHOWN]}…" if cut else f"   {name}", style="dim", overflow="fold")
    for label, text in _facts(kernel):
        yield _field(label, text)
    for how, items in _missing_by_remedy(kernel).items():
        yield _field("missing", f"{', '.join(items)}: {how}")


def _missing_by_remedy(kernel: KernelProfile) -> dict[str, list[str]]:
    """Group what is missing by what to do about it; JSON has the reason of each."""
    groups: dict[str, list[str]] = {}
    for entry in kernel.missing:
        groups.setdefault(entry.how, []).extend(entry.what.split(", "))
    return groups


def _field(label: str, text: str) -> Table:
    """A label and a text that wraps under itself."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
    grid.add_column(width=14, no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(Text(f"   {label}", style="cyan"), Text(printable(text)))
    return grid


def _facts(kernel: KernelProfile) -> Iterator[tuple[str, str]]:
    yield "launch", _launch_text(kernel)
    if kernel.ranges:
        yield "ranges", " / ".join(kernel.ranges)
    point = main_point(kernel)
    for level in ("dram", "l2", "l1"):
        at_level = main_point(kernel, level, path=point.path) if point is not None else main_point(kernel, level)
        if at_level is not None:
            yield (
                ("roofline" if level == "dram" else ""),
                f"{words.path_name(at_level.path)} {words.point_text(at_level)}",
            )
    rated = main_point(kernel, ceiling="rated", path=point.path) if point is not None else None
    if rated is not None:
        yield "", f"{format_percent(rated.fraction_of_roof)} of the rated DRAM roofline, {words.roof_value(rated)}"
    work = [words.work_text(item) for item in kernel.work if item.flop or item.flop_per_s]
    if work:
        yield "work", ", ".join(work)
    for index, moved in enumerate(kernel.traffic):
        yield ("traffic" if index == 0 else ""), _traffic_text(moved)
    if kernel.throughput:
        yield (
            "of peak",
            ", ".join(map(words.throughput_text, kernel.throughput)),
        )
    yield "occupancy", _occupancy_text(kernel)
    stalls = [stall for stall in stalls_of(kernel) if stall.share >= 0.005][:_STALLS_SHOWN]
    if stalls:
        yield (
            "warp states",
            ", ".join(f"{words.stall_name(stall.reason)} {format_percent(stall.share)}" for stall in stalls),
        )


def _traffic_text(moved: Traffic) -> str:
    total = format_si(moved.bytes, "B") if moved.bytes is not None else None
    rate = format_si(moved.bytes_per_s, "B/s") if moved.bytes_per_s is not None else None
    mark = " (estimated)" if moved.basis == "estimated" else ""
    amounts = ", ".join(amount for amount in (total, rate) if amount is not None)
    return f"{words.LEVEL_NAMES[moved.level]} {amounts}{mark}: {moved.definition}"


def _launch_text(kernel: KernelProfile) -> str:
    parts = [f"grid {words.dims(kernel.grid)}", f"block {words.dims(kernel.block)}"]
    if kernel.registers_per_thread is not None:
        parts.append(f"{kernel.registers_per_thread} registers")
    if kernel.shared_memory_per_block is not None:
        parts.append(f"{format_binary(kernel.shared_memory_per_block)} shared memory")
    parts.append(words.duration(kernel.duration_s) if kernel.duration_s is not None else "duration not collected")
    if kernel.sm_clock_hz is not None:
        parts.append(f"SM clock {format_si(kernel.sm_clock_hz, 'Hz')}")
    return ", ".join(parts)


def _occupancy_text(kernel: KernelProfile) -> str:
    occupancy = kernel.occupancy
    achieved = (
        f"{words.percent(occupancy.achieved)} achieved" if occupancy.achieved is not None else "achieved not collected"
    )
    theoretical = f"{words.percent(occupancy.theoretical)} theoretical"
    if occupancy.theoretical is None:
        return f"{achieved}, theoretical not known"
    text = f"{achieved} of {theoretical}" if occupancy.achieved is not None else f"{theoretical}, {achieved}"
    return f"{text}, limited by {' and '.join(occupancy.limiters)}" if occupancy.limiters else text
