"""Which counters are known to count what they claim: certificates, one file per architecture and release of ncu.

Certified: kernels with known work ran under ncu, and the counters gave it. Checked: two independent counts of the same
kernels agree in reports that others recorded, which shows less. `specs/certificates/` holds both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpuprof.hardware.trust import CERTIFIED, CHECKED, NONE
from gpuprof.hardware.yaml_tree import BrokenSpec, Node, load_tree

CERTIFICATES = "certificates"
"""The folder of the spec folders that holds them."""
LEVELS = (CERTIFIED, CHECKED)
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


class Agreement(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Certificate:
    """What one file says: on which architecture, with which releases of ncu, on which GPU, when."""

    arch: str
    level: str
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
        return [one for one in self.agreements if (one.quantity, one.counters) == (quantity, counters)]

    def _fails(self, quantity: str, counters: frozenset[str]) -> bool:
        return any(one.deviation > tolerance(quantity, self.level) for one in self._about(quantity, counters))


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
    found = _RELEASE.match(tool_version or "")
    return found[0] if found else None


def trust(certificates: Sequence[Certificate], quantity: str, metrics: Iterable[str], release: str | None) -> str:
    """Return the best level at which certificates vouch for metrics as a quantity; "none" where none does.

    One that disproves the counters outweighs all that vouch for them.
    """
    counters = base_names(metrics)
    if any(certificate.disproves(quantity, counters, release) for certificate in certificates):
        return NONE
    found = {certificate.level_of(quantity, counters, release) for certificate in certificates}
    return next((level for level in LEVELS if level in found), NONE)


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
    tree = load_tree(path)
    top = _known(tree, "a certificate", _KEYS)
    if _text(top, "schema", tree) != "1" or _text(top, "kind", tree) != "certificate":
        raise BrokenSpec(tree.place, "not a certificate of schema 1")
    level = _text(top, "level", tree)
    if level not in LEVELS:
        raise BrokenSpec(top["level"].place, f"level {level!r} is not one of {', '.join(LEVELS)}")
    return Certificate(
        arch=_text(top, "arch", tree),
        level=level,
        ncu=tuple(node.text("ncu") for node in _required(top, "ncu", tree).sequence("ncu")),
        gpu=_text(top, "gpu", tree) if "gpu" in top else None,
        driver=_text(top, "driver", tree) if "driver" in top else None,
        date=_text(top, "date", tree),
        agreements=tuple(_agreement(node) for node in _required(top, "counters", tree).sequence("counters")),
        file=str(path),
    )


def _agreement(node: Node) -> Agreement:
    entry = _known(node, "an entry of counters", _AGREEMENT_KEYS)
    lowest, highest = _number(entry, "lowest", node), _number(entry, "highest", node)
    if lowest > highest:
        raise BrokenSpec(node.place, "lowest is above highest")
    return Agreement(
        quantity=_text(entry, "quantity", node),
        counters=frozenset(item.text("counters") for item in _required(entry, "counters", node).sequence("counters")),
        known=_text(entry, "known", node),
        lowest=lowest,
        highest=highest,
        cases=round(_number(entry, "cases", node)),
        source=_text(entry, "source", node) if "source" in entry else None,
    )


def _known(node: Node, what: str, keys: set[str]) -> dict[str, Node]:
    entries = dict(node.mapping(what))
    for key, item in entries.items():
        if key not in keys:
            raise BrokenSpec(item.place, f"unknown key {key!r} in {what}; known: {', '.join(sorted(keys))}")
    return entries


def _required(entries: dict[str, Node], key: str, tree: Node) -> Node:
    if key not in entries:
        raise BrokenSpec(tree.place, f"{key} is missing")
    return entries[key]


def _text(entries: dict[str, Node], key: str, tree: Node) -> str:
    text = _required(entries, key, tree).text(key).strip()
    if not text:
        raise BrokenSpec(entries[key].place, f"{key} is empty")
    return text


def _number(entries: dict[str, Node], key: str, tree: Node) -> float:
    text = _text(entries, key, tree)
    try:
        value = float(text)
    except ValueError as error:
        raise BrokenSpec(entries[key].place, f"{key}: {text!r} is not a number") from error
    if not 0 <= value <= LARGEST_RATIO:  # NaN is not either
        raise BrokenSpec(entries[key].place, f"{key}: {text!r} is no ratio and no count")
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
    for one in sorted(certificate.agreements, key=lambda one: (one.quantity, sorted(one.counters), one.known)):
        lines.append(f"  - quantity: {one.quantity}")
        lines.append(f"    counters: [{', '.join(sorted(one.counters))}]")
        lines.append(f"    known: {json.dumps(one.known)}")
        lines.append(f"    lowest: {one.lowest:.6g}")
        lines.append(f"    highest: {one.highest:.6g}")
        lines.append(f"    cases: {one.cases}")
        if one.source is not None:
            lines.append(f"    source: {json.dumps(one.source)}")
    return "\n".join(lines) + "\n"
