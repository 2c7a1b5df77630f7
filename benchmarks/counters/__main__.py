"""Whether the counters count what they claim: certificates, from known work on a GPU, or from reports without one.

    python -m benchmarks.counters measure [--device N]    probes of known work under ncu: ARCH-ncu-RELEASE.yaml
    python -m benchmarks.counters check FOLDER [--write]  two counts of one kernel in reports: ARCH-checked.yaml

Both leave their files in specs/certificates.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from gpuprof.hardware.certificates import certificate_text, read_certificate, tolerance
from gpuprof.resources import data_dir

SUFFIXES = (".ncu-rep", ".nsight-cuprof-report")
FOLDER = data_dir("specs") / "certificates"


def main(words: Sequence[str] | None = None) -> int:
    """Do what the first word says; return 1 where counters are further off than they may be."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counters", description=(__doc__ or "").partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_gpu = commands.add_parser("measure", help="certify the counters of this GPU")
    of_gpu.add_argument("--device", type=int, default=0, metavar="N")
    of_gpu.set_defaults(run=measure)
    of_reports = commands.add_parser("check", help="hold two counts against each other")
    of_reports.add_argument("folder", type=Path)
    of_reports.add_argument("--write", action="store_true", help=f"write the certificates into {FOLDER.name}/")
    of_reports.set_defaults(run=check)
    options = parser.parse_args(words)
    return int(options.run(options))


def check(options: argparse.Namespace) -> int:
    """Print the table of equalities; with --write, replace the certificates that come from reports."""
    from benchmarks.counters.equalities import certificates_of, equalities, rows

    paths = sorted(path for path in options.folder.rglob("*") if path.suffix in SUFFIXES)
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    found = certificates_of(equalities(paths), date)
    print("\n".join(rows(found)))
    if options.write:
        FOLDER.mkdir(exist_ok=True)
        for certificate in found:
            (FOLDER / f"{certificate.arch}-checked.yaml").write_text(certificate_text(certificate), encoding="utf-8")
    off = [
        one
        for certificate in found
        for one in certificate.agreements
        if one.deviation > tolerance(one.quantity, "checked")
    ]
    return 1 if off or not found else 0


def measure(options: argparse.Namespace) -> int:
    """Run `gpuprof characterize --verify-counters` on every probe that claims work, and keep its certificate."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        words = ("characterize", "--quick", "--verify-counters", "--device", str(options.device))
        families = ("--only", "bandwidth", "--only", "instruction", "--only", "tensor")
        output = Path(folder) / "gpu.measured.yaml"
        done = subprocess.run(
            [sys.executable, "-m", "gpuprof", *words, *families, "-o", str(output)],
            check=False,
            stdout=subprocess.DEVNULL,
        )
        files = sorted(Path(folder).glob("sm_*-ncu-*.yaml"))
        for file in files:
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / file.name).write_bytes(file.read_bytes())
    if not files:
        print("nothing was certified", file=sys.stderr)
        return done.returncode or 1
    wrong = 0
    for one in read_certificate(FOLDER / files[0].name).agreements:
        right = one.deviation <= tolerance(one.quantity)
        wrong += not right
        print(
            f"{'' if right else 'OFF':4} {one.quantity:24} {one.lowest:9.5f} {one.known:44} "
            f"{', '.join(sorted(one.counters))}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
