"""Certifies counters probe by probe, so that a run that is cut goes on."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gpuprof.characterize.certify import on_file
from gpuprof.characterize.probes.library import load_probes, probe_folder, select
from gpuprof.collect.process import Ended
from gpuprof.collect.process import run as run_process
from gpuprof.errors import EnvironmentProblem, Interrupted
from gpuprof.hardware.certificates import certificate_text, read_certificate

FAMILIES = ("bandwidth", "instruction", "tensor")
DONE, LOG = "counted.json", "counted.log"
"""Which probes ran, with exit code, seconds and certificate; and what the runs have said."""
PROBE_S = 15.0
"""How long a probe may take (an estimate: none was measured)."""
_TIMEOUT_S = 180.0
_TOLD = 300


class Measured(NamedTuple):
    """How many probes failed, which time did not suffice for, and the names of the certificates that are there."""

    problems: int
    left: tuple[str, ...]
    certificates: tuple[str, ...]


def measure_probes(options: argparse.Namespace, seconds: float, tell: Callable[[str], None]) -> Measured:
    """Run the probes that were asked for and have not run yet.

    Raises EnvironmentProblem for what would be so for all of them, Interrupted where somebody stopped it.
    """
    until, longest_s = time.monotonic() + seconds, PROBE_S
    file = options.folder / DONE
    done: dict[str, dict[str, object]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    left = []
    wanted = _claiming(options.names)
    for name in wanted:
        if name in done:
            tell(f"{name}: there already")
        elif time.monotonic() + longest_s > until:
            left.append(name)
        else:
            done[name] = _probe(name, options, tell)
            longest_s = max(longest_s, float(str(done[name]["seconds"])))
            draft = file.with_suffix(".draft")
            draft.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
            draft.replace(file)
    mine = [done[name] for name in wanted if name in done]
    certificates = dict.fromkeys(str(outcome["certificate"]) for outcome in mine if outcome["certificate"])
    return Measured(sum(bool(outcome["code"]) for outcome in mine), tuple(left), tuple(certificates))


def _claiming(names: list[str]) -> list[str]:
    """Return the probes among those named whose work is known."""
    chosen = select(load_probes(probe_folder()), names or FAMILIES)
    return [probe.id for probe in chosen if probe.method == "slope" and probe.limits]


def _probe(name: str, options: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, object]:
    """Run one probe; add what it certifies to the certificate, and return what became of it."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        ended = _run(name, Path(folder), options)
        with (options.folder / LOG).open("a", encoding="utf-8") as log:
            log.write(f"== {name}: exit code {ended.code}, {ended.seconds:.0f} s\n{ended.tail}\n")
        if ended.stopped_by == "interrupt":
            raise Interrupted(f"interrupted at {name}", "the same command goes on")
        if ended.code == EnvironmentProblem.exit_code:
            said = " ".join(ended.tail.rpartition("error: ")[2].split())
            raise EnvironmentProblem(said[:_TOLD], "gpuprof doctor shows details")
        certificates = sorted(Path(folder).glob("sm_*-ncu-*.yaml"))
        for path in certificates:
            options.certificates.mkdir(parents=True, exist_ok=True)
            place = options.certificates / path.name
            place.write_text(certificate_text(on_file(read_certificate(path), place)), encoding="utf-8")
    told = "certified" if certificates else f"not certified: {' '.join(ended.tail.split())[-_TOLD:]}"
    tell(f"{name}: {told}")
    return {"code": ended.code, "seconds": ended.seconds, "certificate": certificates[0].name if certificates else ""}


def _run(name: str, folder: Path, options: argparse.Namespace) -> Ended:
    arguments = ("characterize", "--quick", "--verify-counters", "--device", str(options.device), "--only", name)
    environ = dict(os.environ)
    if options.ncu:
        environ["PATH"] = os.pathsep.join((str(Path(options.ncu).absolute().parent), environ.get("PATH", "")))
    return run_process(
        [sys.executable, "-m", "gpuprof", *arguments, "--force", "-o", str(folder / "gpu.measured.yaml")],
        environ=environ,
        stdout=subprocess.DEVNULL,
        timeout_s=_TIMEOUT_S,
        quiet=True,
    )
