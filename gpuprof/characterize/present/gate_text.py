"""The list of probes, and the checks of their code: probes down, targets across, and what failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.characterize.present.console_parts import aligned
from gpuprof.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from gpuprof.characterize.gates.table import GateRow
    from gpuprof.characterize.probes.probe import Probe

_MARKS = {"pass": "pass", "fail": "FAIL", "emulated": "emul", "unsupported": "-", None: "?"}


def print_checks(console: Console, rows: Sequence[GateRow]) -> None:
    """Print the table, then each cell that needs a word: what failed, what is emulated."""
    _print(console, _check_lines(rows))


def _print(console: Console, lines: Iterable[str]) -> None:
    console.file.writelines(f"{printable(line)}\n" for line in lines)


def _check_lines(rows: Sequence[GateRow]) -> Iterator[str]:
    targets = list(dict.fromkeys(row.arch for row in rows))
    probes = list(dict.fromkeys(row.probe for row in rows))
    gates = {(row.probe, row.arch): _MARKS[row.judgement.gate] for row in rows}
    yield from aligned(
        [("probe", *targets), *((probe, *(gates[probe, target] for target in targets)) for probe in probes)]
    )
    remarks = tuple(_remarks(rows, every=len(targets) == 1))
    yield from ("", *remarks) if remarks else ()


def _remarks(rows: Sequence[GateRow], *, every: bool) -> Iterator[str]:
    """Yield what is to be said of cells, equal words once; then the targets whose code nothing here can read."""
    archs_of: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row.judgement.gate in {"fail", "emulated"} or (every and row.judgement.gate is not None):
            archs_of.setdefault((row.probe, _gate(row), row.judgement.why), []).append(row.arch)
    for (probe, gate, why), archs in archs_of.items():
        yield f"{probe} {' '.join(archs)}: {gate}: {why}"
    unread = Counter((row.arch, row.judgement.why) for row in rows if row.judgement.gate is None)
    for (arch, why), number in unread.items():
        yield f"{arch}: {number} {'kernel' if number == 1 else 'kernels'} {why}"


def _gate(row: GateRow) -> str:
    """Return the answer; what could not be looked at counts as unsupported, and its `why` says so."""
    return row.judgement.gate or "unsupported"


def checks_json(rows: Sequence[GateRow]) -> Iterator[str]:
    """Yield the checks as the documented JSON."""
    kernels = {
        "kernels": [
            {
                "probe": row.probe,
                "arch": row.arch,
                "gate": _gate(row),
                "why": row.judgement.why,
                "opcodes": dict(row.judgement.opcodes),
            }
            for row in rows
        ]
    }
    yield json.dumps(kernels, indent=2)


def print_probes(console: Console, probes: Sequence[Probe]) -> None:
    """Print one line per probe: what it measures, and in which unit."""
    _print(console, aligned([(probe.id, probe.unit, probe.title) for probe in probes]))


def probes_json(probes: Sequence[Probe]) -> Iterator[str]:
    """Yield the list of probes as JSON."""
    listed = {
        "probes": [
            {
                "probe": probe.id,
                "title": probe.title,
                "quantity": probe.quantity,
                "unit": probe.unit,
                "architectures": list(probe.targets),
            }
            for probe in probes
        ]
    }
    yield json.dumps(listed, indent=2)
