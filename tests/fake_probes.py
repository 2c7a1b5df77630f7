"""Probe files for tests of measuring: small, of every method, with kernels that nobody compiles."""

from __future__ import annotations

from pathlib import Path

from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.probes.probe_file import read_probe

_HEAD = """\
schema: 1
name: {name}
family: {family}
title: "{title}"
quantity: {quantity}
unit: {unit}
method: {method}
statistic: {statistic}
regimes: [{regimes}]
data: [{data}]
architectures: {{lowest: sm_70}}
"""

_KERNEL = """\
entry: {entry}
arguments: [{arguments}]
launch: {{block: {block}, {grid}}}
work: {{per: {per}, iteration: {work}}}
unrolled: 1
gate: {{required: {{FFMA: 1}}, max_overhead: 1}}
"""


def write_probe(folder: Path, family: str, name: str, extra: str = "", **words: str) -> Probe:
    """Write one probe and read it. `extra` is YAML of its own; a probe without `arguments` has no kernel."""
    head = {
        "title": f"The {name} of the fake", "quantity": "throughput", "unit": "FLOP/clk/SM", "method": "slope",
        "statistic": "median", "regimes": "short", "data": "random",
    }  # fmt: skip
    kernel = {
        "entry": f"{family}_{name}".replace("-", "_"), "block": "128", "grid": "blocks_per_sm: 2", "per": "thread",
        "work": "{flop: 64}",
    }  # fmt: skip
    text = _HEAD.format(family=family, name=name, **{**head, **_chosen(words, head)})
    place = folder / family
    place.mkdir(parents=True, exist_ok=True)
    if "arguments" in words:
        text += _KERNEL.format(arguments=words["arguments"], **{**kernel, **_chosen(words, kernel)})
        (place / f"{name}.cu").write_text("// nobody compiles this\n")
    file = place / f"{name}.yaml"
    file.write_text(text + extra)
    return read_probe(file)


def _chosen(words: dict[str, str], known: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in words.items() if name in known}


def ffma(folder: Path, **words: str) -> Probe:
    """A throughput with a sweep over launch shapes and chains."""
    return write_probe(
        folder, "instruction", "ffma-throughput",
        "parameters: {CHAINS: [4, 8]}\nlimit: {compute: fp32}\n"
        "expected: [{low: 40 %, high: 60 %, source: chosen here}]\n",
        arguments="clocks, iterations, sink, f32 0.5", block="[128, 256]", **words,
    )  # fmt: skip


def dram(folder: Path, name: str = "dram-read") -> Probe:
    """A sustained bandwidth over a buffer far larger than L2."""
    return write_probe(
        folder, "bandwidth", name,
        "buffers: {source: {least: 256 MiB, times_l2: 64, fill: random}}\nlimit: {bandwidth: dram}\n"
        "parameters: {DEPTH: [4, 1]}\n",
        quantity="bandwidth", unit="B/s", regimes="sustained", work="{byte: [16, DEPTH]}",
        arguments="clocks, iterations, sink, buffer source, bytes source", grid="blocks_per_sm: [4, 2]",
    )  # fmt: skip


def chase(folder: Path, name: str = "l2", size: str = "least: 64 KiB") -> Probe:
    """A latency by a walk that the host checks."""
    return write_probe(
        folder, "latency", name,
        f"buffers: {{walk: {{least: 16 B, fill: zeros}}, chain: {{{size}, fill: chase, stride: 128 B}}}}\n"
        "check: chain\n",
        quantity="latency", unit="cycle", statistic="mode", block="32", grid="grid: 1", work="{result: 16}",
        arguments="clocks, iterations, sink, buffer walk, buffer chain, bytes chain, u32 128",
    )  # fmt: skip


def capacity(folder: Path) -> Probe:
    """A curve of latency against the size that is walked."""
    return write_probe(
        folder, "latency", "l2-capacity",
        "sweep: {size: {first: {least: 256 KiB}, last: {times_l2: 4}, per_doubling: 4}}\nalong: size\n"
        "buffers: {walk: {least: 16 B, fill: zeros}, chain: {sweep: size, fill: chase, stride: 128 B}}\ncheck: chain\n",
        quantity="capacity", unit="B", method="curve", statistic="mode", block="32", grid="grid: 1",
        work="{result: 16}", arguments="clocks, iterations, sink, buffer walk, buffer chain, bytes chain, u32 128",
    )  # fmt: skip


def in_flight(folder: Path) -> Probe:
    """A curve of bandwidth against the bytes in flight."""
    return write_probe(
        folder, "bandwidth", "dram-in-flight",
        "buffers: {source: {least: 256 MiB, times_l2: 64, fill: random}}\nlimit: {bandwidth: dram}\n"
        "parameters: {DEPTH: [4, 1, 2]}\nseries: [DEPTH]\nalong: block\n",
        quantity="bandwidth", unit="B/s", method="curve", block="[32, 64, 128, 256, 512, 1024]",
        grid="blocks_per_sm: 1", work="{byte: [16, DEPTH]}",
        arguments="clocks, iterations, sink, buffer source, bytes source",
    )  # fmt: skip


def conflicts(folder: Path) -> Probe:
    """A curve of cycles against the degree of bank conflicts."""
    return write_probe(
        folder, "bank-conflict", "load-4", "sweep: {ways: [1, 2, 4, 8, 16, 32]}\nalong: ways\n",
        unit="cycle", method="curve", block="1024", grid="blocks_per_sm: 1", per="block", work="{result: 32}",
        arguments="clocks, iterations, sink, u32 ways",
    )  # fmt: skip


def sm_map(folder: Path) -> Probe:
    """The latency of every SM."""
    return write_probe(
        folder, "latency", "l2-map", "sweep: {line: [0, 1]}\nseries: [line]\n", quantity="latency", unit="cycle",
        method="map", statistic="mode", block="32", grid="blocks_per_sm: 1", work="{result: 16}",
        arguments="clocks, iterations, sink, u32 line",
    )  # fmt: skip


def resident(folder: Path) -> Probe:
    """How many blocks are on an SM at once."""
    return write_probe(
        folder, "occupancy", "resident-warps", quantity="capacity", unit="block", method="resident",
        block="128", grid="blocks_per_sm: 20", work="{result: 16}", arguments="clocks, iterations, sink",
    )  # fmt: skip


def launch(folder: Path, way: str = "queued") -> Probe:
    """The time of an empty launch."""
    return write_probe(
        folder, "launch", f"null-{way}", f"launched: {way}\n", quantity="time", unit="s", method="launch",
        block="32", grid="grid: 1", per="grid", work="{result: 1}", arguments="",
    )  # fmt: skip


def copy(folder: Path) -> Probe:
    """Copies from the host."""
    return write_probe(
        folder, "copies", "host-to-device-pinned",
        "transfer: {from: pinned, to: device}\nlimit: {bandwidth: pcie}\n"
        "sweep: {size: {first: {least: 4 KiB}, last: {least: 256 MiB}, per_doubling: 1}}\n",
        quantity="bandwidth", unit="B/s", method="copy",
    )  # fmt: skip


def power(folder: Path, load: str | None = None) -> Probe:
    """Power of an idle GPU, or under the kernel of another probe."""
    return write_probe(
        folder, "clocks", load.partition("/")[2] if load else "idle", f"load: {load}\n" if load else "",
        quantity="power", unit="W", method="power", regimes="sustained",
    )  # fmt: skip


def every(folder: Path) -> tuple[Probe, ...]:
    """One probe of each kind."""
    return (
        ffma(folder), dram(folder), chase(folder), capacity(folder), in_flight(folder), conflicts(folder),
        sm_map(folder), resident(folder), launch(folder), copy(folder), power(folder),
        power(folder, "instruction/ffma-throughput"),
    )  # fmt: skip
