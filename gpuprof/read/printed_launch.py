"""A launch and its GPU out of the cells that ncu printed of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import (
    WHOLE_GRAPH,
    DictMetrics,
    Dim3,
    Launch,
)
from gpuprof.model.torch_ranges import MARK, readable_range
from gpuprof.read.device_attributes import ATTRIBUTE, device_of, dimensions
from gpuprof.read.printed_table import is_range_column

_DOMAIN = re.compile(r'"([^:"]*):')
_OPENING_QUOTE = re.compile(r'(?<!\S)"')
_BEHIND_NAME = re.compile(r'(?::[^:"]*){6}"(?=\s|$)')
_UNNAMED = re.compile(r"\(unnamed(?: \d+)?\)")
"""What stands for the name of a kernel that a text does not tell: it selects no launch."""
_OF_GRAPHS = ("launch__graph_contains_device_launch", "launch__graph_is_device_launchable")
_OPENING = {")": "(", "]": "[", "}": "{"}


class RecordedLaunch(Struct, frozen=True):
    """A launch whose device is still CUDA's index, what tells that device apart, and the device."""

    launch: Launch
    device_key: tuple[str, str, str | None]
    device: RecordedDevice


def recorded_launch(
    cells: Mapping[str, str], table: DictMetrics, range_s: tuple[float, float] | None = None
) -> RecordedLaunch:
    """Make the launch and the device of a row's launch columns and metrics.

    `range_s` are the durations of the shortest and longest of the launches that a summary has as one.
    """
    name = table.get(f"{ATTRIBUTE}display_name")
    named = name.value if name is not None and isinstance(name.value, str) else None
    device = device_of(table.number, named, cells.get("CC", ""))
    demangled = cells["Kernel Name"]
    launch = Launch(
        kind=WHOLE_GRAPH if _is_whole_graph(cells, table) else "kernel",
        name="" if _UNNAMED.fullmatch(demangled) else short_name(demangled),
        demangled=demangled,
        device=0,
        process=_integer(cells.get("Process ID", "")),
        stream=_integer(cells.get("Stream", "")),
        grid=_dimensions(cells.get("Grid Size", ""), "grid", table),
        block=_dimensions(cells.get("Block Size", ""), "block", table),
        ranges=_ranges_of(cells),
        metrics=table,
        invocations=_integer(cells.get("Invocations", "")) or 1,
        duration_range_s=range_s,
    )
    return RecordedLaunch(launch, (cells.get("Device", ""), cells.get("CC", ""), device.name), device)


def _is_whole_graph(cells: Mapping[str, str], metrics: DictMetrics) -> bool:
    """Return whether a launch is a CUDA graph profiled as one.

    The raw page has metrics of such graphs alone; where ncu prints a line for a launch, that of a graph has no stream.
    """
    if any(metrics.has(name) for name in _OF_GRAPHS):
        return True
    return cells["Kernel Name"] == "graph" and cells.get("Stream") == ""


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text.strip()) else None


def _dimensions(cell: str, which: str, metrics: DictMetrics) -> Dim3 | None:
    """Return the sizes of "(256, 1, 1)" or of launch__block_dim_*; a product alone has no dimensions."""
    texts = re.findall(r"[0-9]{1,10}", cell)
    if len(texts) != 3:
        return dimensions(metrics, which)
    x, y, z = map(int, texts)
    return (x, y, z) if x and y and z else None


def short_name(demangled: str) -> str:
    """Return a function's base name: no return type, scope, template arguments or parameters."""
    text = demangled.replace("(anonymous namespace)", "_anonymous_").replace("<unnamed>", "_unnamed_")
    text = re.sub(r"\boperator ?\(\)", "operator_call", text)
    tokens = _outside_brackets(text).split()
    name = tokens[-1].rpartition("::")[2].lstrip("*&") if tokens else ""
    return name.replace("operator_call", "operator()") or demangled


def _outside_brackets(text: str) -> str:
    """Return what stands in no bracket, up to the parameter list."""
    kept: list[str] = []
    open_brackets: list[str] = []
    for before, char in zip(" " + text, text, strict=False):
        if char == "(" and not open_brackets:
            break
        if char in "<([{":
            open_brackets.append(char)
        elif char == ">" and open_brackets:
            if open_brackets[-1] == "<" and before != "-":
                open_brackets.pop()
        elif char in _OPENING and _OPENING[char] in open_brackets:
            while open_brackets.pop() != _OPENING[char]:
                pass
        elif not open_brackets:
            kept.append(char)
    return "".join(kept)


def _ranges_of(cells: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the ranges around a launch. A summary has their domain in a column of its own."""
    names: list[str] = []
    for column, cell in cells.items():
        if is_range_column(column):
            in_domain = _OPENING_QUOTE.sub(f'"{cells["Domain"]}:', cell) if "Domain" in cells else cell
            names += _ranges(column, in_domain)
    return tuple(names)


def _ranges(column: str, cell: str) -> tuple[str, ...]:
    """Return the range names of a cell such as `THREAD  "DOMAIN:NAME:none:none:none:none:none:none" `.

    A name may hold colons; the six fields behind it do not. The default domain is left out, another is kept. gpuprof's
    own mark is none of the program's ranges.
    """
    names = []
    end = 0
    while (opening := _DOMAIN.search(cell, end)) and (behind := _BEHIND_NAME.search(cell, opening.end())):
        domain, name = opening[1], cell[opening.end() : behind.start()]
        if "Start/Stop" in column:
            domain, _, name = name.partition(":")
        if name != MARK:
            name = readable_range(name)
            names.append(name if domain in {"", "<default domain>"} else f"{domain}:{name}")
        end = behind.end()
    return tuple(names)


def with_devices(recorded: Sequence[RecordedLaunch]) -> tuple[tuple[Launch, ...], tuple[RecordedDevice, ...]]:
    """List each GPU once and give the launches its place in the list."""
    places: dict[tuple[str, str, str | None], int] = {}
    devices: list[RecordedDevice] = []
    launches: list[Launch] = []
    for entry in recorded:
        place = places.setdefault(entry.device_key, len(devices))
        if place == len(devices):
            devices.append(entry.device)
        elif devices[place].sm_count is None and entry.device.sm_count is not None:
            devices[place] = replace(devices[place], sm_count=entry.device.sm_count)
        launches.append(replace(entry.launch, device=place))
    return tuple(launches), tuple(devices)
