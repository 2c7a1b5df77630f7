"""Whether the counters count what they claim: certificates, from known work on a GPU, or from reports without one.

    python -m benchmarks.counters measure [PROBE …]       probes of known work under ncu: ARCH-ncu-RELEASE.yaml
        [--minutes M] [--archive FILE] [--folder DIR]     in parts: the same command goes on; as files of 15 MB
    python -m benchmarks.counters check FOLDER [--write]  two counts of one kernel in reports: ARCH-checked.yaml

`measure` leaves its file in specs/certificates (--certificates DIR names another place), `check` only with --write.
Both return 1 where counters are further off than they may be, and 2 for a folder without reports that can be compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.command_line import add_part_options, ended, run, seconds_of
from gpuprof.errors import UsageError
from gpuprof.hardware.certificates import Agreement, Certificate, certificate_text, read_certificate, tolerance
from gpuprof.read.identify import REPORTS
from gpuprof.resources import data_dir

FOLDER = data_dir("specs") / "certificates"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the first word says and return the exit code; every error has been printed."""
    return run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counters", description=(__doc__ or "").partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_gpu = commands.add_parser("measure", help="certify the counters of this GPU")
    of_gpu.add_argument("names", nargs="*", metavar="FAMILY[/NAME]", help="only these probes")
    of_gpu.add_argument("--device", type=int, default=0, metavar="N")
    of_gpu.add_argument("--folder", type=Path, default=Path("gpuprof-counters"), help="what was done, to go on with")
    of_gpu.add_argument("--certificates", type=Path, default=FOLDER, help="where the certificates go")
    add_part_options(of_gpu)
    of_gpu.set_defaults(run=measure)
    of_reports = commands.add_parser("check", help="hold two counts against each other")
    of_reports.add_argument("folder", type=Path)
    of_reports.add_argument("--write", action="store_true", help=f"write the certificates into {FOLDER.name}/")
    of_reports.set_defaults(run=check)
    return parser


def check(options: argparse.Namespace) -> int:
    """Print the table of equalities; with --write, replace the certificates that come from reports."""
    from benchmarks.counters.equalities import certificates_of, equalities, rows

    paths = sorted(path for path in options.folder.rglob("*") if path.suffix in REPORTS)
    if not paths:
        raise UsageError(f"no reports in {options.folder}", f"name a folder with {' or '.join(REPORTS)} files")
    certificates = certificates_of(equalities(paths), datetime.now(timezone.utc).strftime("%Y-%m-%d"))
    if not certificates:
        raise UsageError(
            f"no report in {options.folder} counts the same work twice",
            "record some with ncu --set full",
        )
    print("\n".join(rows(certificates)))
    if options.write:
        for certificate in certificates:
            _write(certificate, f"{certificate.arch}-checked.yaml")
    return (
        1
        if any(_off(agreement, certificate) for certificate in certificates for agreement in certificate.agreements)
        else 0
    )


def measure(options: argparse.Namespace) -> int:
    """Run `gpuprof characterize --quick --verify-counters` for one probe after another, and keep what it certifies.

    What is certified is there when the next probe begins; a probe that ran is not run again. Counted are the slope
    probes that claim FLOP, OP or bytes.
    """
    from benchmarks.counters.measuring import measure_probes

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    options.folder.mkdir(parents=True, exist_ok=True)
    done = measure_probes(options, seconds_of(options), tell)
    certificates = [read_certificate(options.certificates / name) for name in done.certificates]
    for certificate in certificates:
        print("\n".join(_rows(certificate)))
    if not certificates and not done.left:
        tell("nothing was certified")
    wrong = done.problems + sum(
        _off(agreement, certificate) for certificate in certificates for agreement in certificate.agreements
    )
    return ended(options.folder, options.archive, wrong + (not certificates and not done.left), done.left, tell)


def _write(certificate: Certificate, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(certificate_text(certificate), encoding="utf-8")


def _off(agreement: Agreement, certificate: Certificate) -> bool:
    return agreement.deviation > tolerance(agreement.quantity, certificate.level)


def _rows(certificate: Certificate) -> Iterator[str]:
    """Yield what each probe says of each way to count its work."""
    for agreement in certificate.agreements:
        mark, names = "OFF" if _off(agreement, certificate) else "", ", ".join(sorted(agreement.counters))
        yield f"{mark:4} {agreement.quantity:24} {agreement.lowest:9.5f} {agreement.known:44} {names}"


if __name__ == "__main__":
    sys.exit(main())
