"""A certificate of what ncu's counters count, from probes whose work is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpuprof.errors import SpecError
from gpuprof.hardware.certificates import Agreement, Certificate, ratio, read_certificate, release_of
from gpuprof.hardware.trust import CERTIFIED

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.results.judging import CountedAndClaimed

SPARSE = " sparse"


def certificate_of(
    counted: Mapping[str, CountedAndClaimed],
    probes: Iterable[Probe],
    arch: str,
    *,
    ncu: str | None,
    gpu: str | None,
    driver: str | None,
    date: str,
) -> Certificate:
    """Return what the counts of a run certify: for each probe, quantity and way to count it, counted ÷ claimed.

    `ncu` is its version, such as "2025.3.1.0".
    """
    sparse = frozenset(probe.id for probe in probes if probe.sparse)
    release = release_of(ncu)
    return Certificate(
        arch=arch,
        level=CERTIFIED,
        ncu=(release,) if release is not None else (),
        gpu=gpu,
        driver=driver,
        date=date,
        agreements=tuple(_agreements(counted, sparse)),
        file="",
    )


def _agreements(counted: Mapping[str, CountedAndClaimed], sparse: frozenset[str]) -> Iterator[Agreement]:
    """Yield one for each probe. Structured sparsity is a quantity of its own: what is claimed there is the half."""
    for probe, count in counted.items():
        for (name, counters), value in count.each.items():
            claim = count.claimed.get(name)
            if claim:
                quantity, agreed = name + SPARSE if probe in sparse else name, ratio(value, claim)
                yield Agreement(
                    quantity=quantity, counters=counters, known=f"probe {probe}", lowest=agreed, highest=agreed,
                    cases=1, source=None,
                )  # fmt: skip


def merged(new: Certificate, old: Certificate) -> Certificate:
    """Return a certificate with what an older one has besides; where both say something, the new one counts.

    What is taken over says on which GPU and when. Nothing is, of another architecture, level or release of ncu.
    """
    if (old.arch, old.level, old.ncu) != (new.arch, new.level, new.ncu):
        return new
    again = {_key(agreement) for agreement in new.agreements}
    kept = (agreement for agreement in old.agreements if _key(agreement) not in again)
    origin = ", ".join(filter(None, (old.gpu, old.driver and f"driver {old.driver}", old.date)))
    earlier = (replace(agreement, source=agreement.source or origin) for agreement in kept)
    return replace(new, agreements=(*new.agreements, *earlier))


def _key(agreement: Agreement) -> tuple[str, frozenset[str], str]:
    return agreement.quantity, agreement.counters, agreement.known


def on_file(new: Certificate, path: Path) -> Certificate:
    """Return a certificate merged with that of the file it will replace, where that is there and can be read."""
    try:
        return merged(new, read_certificate(path))
    except SpecError:
        return new
