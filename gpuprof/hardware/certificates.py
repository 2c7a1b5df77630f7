"""Which counters are known to count what they claim: certificates, one file per architecture and release of ncu.

Certified: kernels with known work ran under ncu, and the counters gave it. Checked: two independent counts of the same
kernels agree in reports that others recorded, which shows less. `specs/certificates/` holds both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from gpuprof.hardware.trust import CERTIFIED, CHECKED, NONE, Trust
from gpuprof.hardware.yaml_fields import Fields
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree

CERTIFICATES = "certificates"
"""The folder of the spec folders that holds them."""
LEVELS: tuple[Trust, ...] = (CERTIFIED, CHECKED)
"""What a file can say."""
TOLERANCES = {"work": 0.01, "traffic.dram": 0.03, "traffic.l2": 0.05, "traffic.l1": 0.05}
"""How far what is counted may be from what is known: FLOP, bytes at DRAM, bytes at L2 and L1."""
CHECKED_TOLERANCE = 0.02
"""How far two counts may be apart. The busy share of the tensor pipe is rounded and includes its start."""
LARGEST_RATIO = 1e6
"""What is further off is no further wrong."""
_KEYS = {"schema", "kind", "arch", "level", "ncu", "gpu", "driver", "date", "counters"}
_AGREEMENT_KEYS = {"quantity", "counters", "known", "lowest", "highest", "cases", "source"}
_RELEASE = re.compile(r"\d{4}\.\d+")


class Agreement(Struct, frozen=True):
    """How a quantity's counters compared with what was known of `cases` kernels: counted ÷ known, lowest and highest.

    `counters` are names without what follows the first dot; an opcode histogram is named as it is.
    """

    quantity: str
    counters: frozenset[str]
    known: str
    lowest: float
    highest: float
    cases: int
    source: str | None

    @property
    def deviation(self) -> float:
        """Return how far the worst case was from what was known, as a fraction."""
        return max(abs(self.lowest - 1), abs(self.highest - 1))


class Certificate(Struct, frozen=True):
    """What one file says: on which architecture, with which releases of ncu, on which GPU, when."""

    arch: str
    level: Trust
    ncu: tuple[str, ...]
    gpu: str | None
    driver: str | None
    date: str
    agreements: tuple[Agreement, ...]
    file: str

    def level_of(self, quantity: str, counters: frozenset[str], release: str | None) -> str | None:
        """Return how far these counters are trusted for a quantity; None: not by this file.

        A certificate of another release of ncu counts as a check.
        """
        if not self._about(quantity, counters) or self._fails(quantity, counters):
            return None
        return self.level if release in self.ncu else CHECKED

    def disproves(self, quantity: str, counters: frozenset[str], release: str | None) -> bool:
        """Tell whether these counters were wrong: with this release of ncu, or in a check, whatever its release."""
        return (self.level == CHECKED or release in self.ncu) and self._fails(quantity, counters)

    def _about(self, quantity: str, counters: frozenset[str]) -> list[Agreement]:
        about = (quantity, counters)
        return [agreement for agreement in self.agreements if (agreement.quantity, agreement.counters) == about]

    def _fails(self, quantity: str, counters: frozenset[str]) -> bool:
        allowed = tolerance(quantity, self.level)
        return any(agreement.deviation > allowed for agreement in self._about(quantity, counters))


def tolerance(quantity: str, level: str = CERTIFIED) -> float:
    """Return how far counted and known may be apart for a quantity such as "work.fp32", as a fraction."""
    if level == CHECKED:
        return CHECKED_TOLERANCE
    return TOLERANCES.get(quantity, TOLERANCES["work"])


def ratio(counted: float, known: float) -> float:
    """Return counted ÷ known as a certificate holds it. A count that is negative or no number is as wrong as 0."""
    quotient = counted / known
    return min(quotient, LARGEST_RATIO) if quotient > 0 else 0.0


def base_names(metrics: Iterable[str]) -> frozenset[str]:
    """Return the counters that metrics are taken from: their names up to the first dot."""
    return frozenset(metric.partition(".")[0] for metric in metrics)


def release_of(tool_version: str | None) -> str | None:
    """Return the release of ncu that a version belongs to: "2025.3.1.0" → "2025.3"."""
    release = _RELEASE.match(tool_version or "")
    return release[0] if release else None


def trust(certificates: Sequence[Certificate], quantity: str, metrics: Iterable[str], release: str | None) -> Trust:
    """Return the best level at which certificates vouch for metrics as a quantity; "none" where none does.

    One that disproves the counters outweighs all that vouch for them.
    """
    counters = base_names(metrics)
    if any(certificate.disproves(quantity, counters, release) for certificate in certificates):
        return NONE
    levels = {certificate.level_of(quantity, counters, release) for certificate in certificates}
    return next((level for level in LEVELS if level in levels), NONE)


def load_certificates(folders: Iterable[Path], arch: str) -> tuple[Certificate, ...]:
    """Read the certificates of an architecture: `certificates/ARCH-*.yaml` of each folder.

    Raises BrokenSpec, also for a file that is for another architecture than its name says.
    """
    paths = (path for folder in folders for path in sorted((folder / CERTIFICATES).glob(f"{arch}-*.yaml")))
    return tuple(_read_named(path) for path in paths)


def _read_named(path: Path) -> Certificate:
    certificate = read_certificate(path)
    complaint = misnamed(certificate, path)
    if complaint:
        raise BrokenSpec(load_tree(path).mapping("a certificate")["arch"].place, complaint)
    return certificate


def misnamed(certificate: Certificate, path: Path) -> str:
    """Return the complaint about a file whose name and `arch` differ; empty where they agree."""
    if path.name.partition("-")[0] == certificate.arch:
        return ""
    return f"arch {certificate.arch!r} in a file called {path.name}"


def read_certificate(path: Path) -> Certificate:
    """Read one file. Raises BrokenSpec with file and line."""
    top = Fields(load_tree(path), "a certificate", _KEYS)
    if top.text("schema") != "1" or top.text("kind") != "certificate":
        raise BrokenSpec(top.tree.place, "not a certificate of schema 1")
    return Certificate(
        arch=top.text("arch"),
        level=top.choice("level", LEVELS),
        ncu=tuple(node.text("ncu") for node in top.required("ncu").sequence("ncu")),
        gpu=top.optional_text("gpu"),
        driver=top.optional_text("driver"),
        date=top.text("date"),
        agreements=tuple(_agreement(node) for node in top.required("counters").sequence("counters")),
        file=str(path),
    )


def _agreement(node: YamlNode) -> Agreement:
    entry = Fields(node, "an entry of counters", _AGREEMENT_KEYS)
    lowest, highest = (_ratio(entry, key) for key in ("lowest", "highest"))
    if lowest > highest:
        raise BrokenSpec(node.place, "lowest is above highest")
    return Agreement(
        quantity=entry.text("quantity"),
        counters=frozenset(item.text("counters") for item in entry.required("counters").sequence("counters")),
        known=entry.text("known"),
        lowest=lowest,
        highest=highest,
        cases=entry.whole("cases"),
        source=entry.optional_text("source"),
    )


def _ratio(entry: Fields, key: str) -> float:
    value = entry.number(key)
    if not 0 <= value <= LARGEST_RATIO:
        raise BrokenSpec(entry.place(key), f"{key}: {value:g} is not a ratio")
    return value


def certificate_text(certificate: Certificate) -> str:
    """Return a certificate as the text of its file."""
    import json

    lines = [
        "schema: 1",
        "kind: certificate",
        f"arch: {certificate.arch}",
        f"level: {certificate.level}",
        f"ncu: [{', '.join(json.dumps(release) for release in certificate.ncu)}]",
    ]
    for key in ("gpu", "driver", "date"):
        value = getattr(certificate, key)
        if value:
            lines.append(f"{key}: {json.dumps(value)}")
    lines.append("counters:" if certificate.agreements else "counters: []")
    for row in sorted(certificate.agreements, key=lambda row: (row.quantity, sorted(row.counters), row.known)):
        lines.append(f"  - quantity: {row.quantity}")
        lines.append(f"    counters: [{', '.join(sorted(row.counters))}]")
        lines.append(f"    known: {json.dumps(row.known)}")
        lines.append(f"    lowest: {row.lowest:.6g}")
        lines.append(f"    highest: {row.highest:.6g}")
        lines.append(f"    cases: {row.cases}")
        if row.source is not None:
            lines.append(f"    source: {json.dumps(row.source)}")
    return "\n".join(lines) + "\n"
