"""Two counts of the kernels of real reports agree as the packaged certificates say."""

from __future__ import annotations

import pytest

import benchmarks.counters.equalities as equalities_module
from benchmarks.counters.equalities import certificates_of, equalities
from gpuprof.hardware.certificates import Certificate, read_certificate
from gpuprof.resources import data_dir
from tests.field.folder import folder
from tests.readings import read_once


def named(certificate: Certificate) -> set[tuple[str, frozenset[str], str]]:
    return {(agreement.quantity, agreement.counters, agreement.known) for agreement in certificate.agreements}


def test_two_counts_of_real_kernels_agree_as_the_packaged_certificates_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m benchmarks.counters check` writes what specs/certificates contains."""
    monkeypatch.setattr(equalities_module, "read_file", read_once)
    paths = sorted(path for path in folder().rglob("*") if path.suffix in {".ncu-rep", ".nsight-cuprof-report"})
    certificates = list(certificates_of(equalities(paths), "2026-11-22"))
    assert certificates
    for certificate in certificates:
        kept = read_certificate(data_dir("specs") / "certificates" / f"{certificate.arch}-checked.yaml")
        assert named(kept) == named(certificate)
        assert max(agreement.deviation for agreement in certificate.agreements) < 1e-9
