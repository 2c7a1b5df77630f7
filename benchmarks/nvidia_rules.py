"""How far gpuprof's findings agree with the messages of NVIDIA's own rules that the reports carry.

    python -m benchmarks.nvidia_rules FOLDER [--all]

For every message of a rule that names one of the causes below, gpuprof must have a finding of the matching rule on the
same kernel, of any severity: a fact, or explained by another finding, too. Prints a table per cause, then every
disagreement with what both said. `--all` lists the agreements too. Messages that gpuprof leaves out on purpose are
counted apart, with the reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import gpuprof
from benchmarks.rule_messages import RuleResult, results_of
from gpuprof.diagnose.thresholds import EMPTY_LANES
from gpuprof.errors import GpuprofError
from gpuprof.model.recorded import Report
from gpuprof.model.session import KernelProfile
from gpuprof.read.files import read_file
from gpuprof.read.identify import REPORTS

SPEAKS = ("warning", "optimization")
AIM = 0.95

MEMORY = ("memory-latency",)
GAP = ("load-imbalance", "short-blocks", "small-grid", "tail-effect")
"""What leaves warps fewer than fit."""
STALLS = {
    "long scoreboard": MEMORY,
    "lg throttle": MEMORY,
    "tex throttle": MEMORY,
    "drain": MEMORY,
    "wait": ("dependency-latency",),
    "barrier": ("barrier-wait",),
    "membar": ("barrier-wait",),
    "imc miss": ("constant-miss",),
    "no instruction": ("instruction-fetch",),
    "branch resolving": ("instruction-fetch",),
    "math pipe throttle": (
        "fp32-compute-bound", "fp64-bound", "integer-bound", "special-function-bound", "tensor-compute-bound",
    ),
    "short scoreboard": ("shared-bandwidth", "shared-bank-conflict", "special-function-bound", "latency-bound"),
    "mio throttle": ("shared-bandwidth", "shared-bank-conflict", "special-function-bound", "latency-bound"),
}  # fmt: skip
"""Stall reasons that NVIDIA's rule names, and the rules of gpuprof of which one must speak then."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What NVIDIA's rule says of a kernel, which of our rules must say so too, or why none should."""

    cause: str
    ours: tuple[str, ...]
    left_out: str | None = None


def claim_of(result: RuleResult) -> Claim | None:
    """Turn a message into the claim that it makes; None for what is no diagnosis of these causes."""
    if result.kind not in SPEAKS:
        return None
    text = f"{result.title} {result.message}"
    for rule, test, make in _CLAIMS:
        if result.rule == rule and test(text):
            return make(text)
    return None


def _always(claim: Claim) -> Callable[[str], Claim]:
    return lambda _: claim


def _stall(text: str) -> Claim:
    title = text.partition("On average")[0].replace("_", " ").strip().removesuffix(" Stalls").lower()
    title = title or next((reason for phrase, reason in _UNTITLED.items() if phrase in text), "")
    if title == "not selected":
        return Claim(f"stall: {title}", (), "not a stall: the warp was eligible and another one issued")
    return Claim(f"stall: {title}", STALLS.get(title, ("latency-bound",)))


_UNTITLED = {"dependency on a L1TEX": "long scoreboard", "immediate constant cache": "imc miss"}
"""Text exports lack the title: the reason by words of the message."""


def _conflicts(text: str) -> Claim:
    """A message can speak of a conflict of 1.0 ways: one pass a request, which is none."""
    ways = re.search(r"a ([\d.]+) ?- ?way", text)
    if ways is not None and float(ways[1]) < _LEAST_WAYS:
        return Claim("shared-memory conflicts", (), "a conflict of 1.0 ways is one pass a request, and none")
    return Claim("shared-memory conflicts", ("shared-bank-conflict",))


_LEAST_WAYS = 1.05
"""Less is written as 1.0."""


def _partly_filled(text: str) -> Claim:
    """A message speaks of any block that is not whole warps."""
    threads = re.search(r"execute (\d+) threads per block", text)
    size = int(threads[1]) if threads is not None else 0
    if size and 1 - size / (32 * -(-size // 32)) < _LEAST_EMPTY:
        return Claim("block size", (), "the last warp of a large block is under 3 % of its lanes")
    return Claim("block size", ("block-size",))


_LEAST_EMPTY = EMPTY_LANES.value / 100


def _occupancy(text: str) -> Claim:
    if "not impacted by any block limit" in text:
        gap = re.search(r"theoretical \(([\d.]+)%\) and measured achieved occupancy \(([\d.]+)%\)", text)
        if gap is None:
            return Claim("occupancy limiter", (), "it says that nothing limits the occupancy")
        return Claim("achieved occupancy", GAP)
    return Claim("occupancy limiter", ("low-occupancy",))


_CLAIMS: tuple[tuple[str, Callable[[str], bool], Callable[[str], Claim]], ...] = (
    (
        "UncoalescedGlobalAccess",
        lambda t: "uncoalesced" in t,
        _always(Claim("uncoalesced global", ("uncoalesced-global",))),
    ),
    (
        "UncoalescedSharedAccess",
        lambda t: "uncoalesced" in t,
        _always(Claim("shared-memory conflicts", ("shared-bank-conflict",))),
    ),
    ("SharedMemoryConflicts", lambda t: "conflict" in t, _conflicts),
    ("Occupancy", lambda t: "theoretical occupancy" in t, _occupancy),
    (
        "TheoreticalOccupancy",
        lambda t: "theoretical" in t,
        _always(Claim("occupancy limiter", ("low-occupancy",))),
    ),
    (
        "AchievedOccupancy",
        lambda t: "achieved occupancy" in t,
        _always(Claim("achieved occupancy", GAP)),
    ),
    ("SOLBottleneck", lambda t: "grid is too small" in t, _always(Claim("small grid", ("small-grid",)))),
    (
        "LaunchConfiguration",
        lambda t: "is configured to execute only" in t,
        _always(Claim("small grid", ("small-grid",))),
    ),
    (
        "LaunchConfiguration",
        lambda t: "recommended to have more than" in t,
        _always(Claim("few blocks an SM", ("small-grid", "barrier-wait"))),
    ),
    ("LaunchConfiguration", lambda t: "are masked off" in t, _partly_filled),
    ("LaunchConfiguration", lambda t: "partial wave" in t, _always(Claim("tail effect", ("tail-effect",)))),
    ("ThreadDivergence", lambda t: "active" in t, _always(Claim("divergence", ("branch-divergence", "block-size")))),
    ("FPInstructions", lambda t: "non-fused" in t, _always(Claim("non-fused FP", ("non-fused-fp",)))),
    ("CPIStall", lambda t: "On average" in t, _stall),
    (
        "WorkloadImbalance",
        lambda t: "L2 Slices" in t,
        _always(Claim("uneven L2 slices", (), "NVIDIA's rule names them however rarely L2 works")),
    ),
    ("SOLBottleneck", lambda t: "indicate latency issues" in t, _always(Claim("latency issue", ("*",)))),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A claim of NVIDIA's on one kernel, and whether one of our rules made it."""

    file: str
    kernel: KernelProfile
    claim: Claim
    message: str

    @property
    def agrees(self) -> bool:
        """Tell whether a finding of a matching rule is there."""
        any_rule = self.claim.ours == ("*",)
        return any(any_rule or finding.rule in self.claim.ours for finding in self.kernel.findings)


def compare(path: Path) -> Iterator[Comparison]:
    """Yield the claims that a report carries; what cannot be read has none."""
    try:
        report, session = read_file(str(path)), gpuprof.load(path)
    except GpuprofError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return
    if not isinstance(report, Report):
        return
    for launch, kernel in zip(report, session.kernels, strict=True):
        for result in results_of(launch):
            claim = claim_of(result)
            if claim is not None:
                yield Comparison(path.name, kernel, claim=claim, message=result.message)


def print_table(comparisons: list[Comparison]) -> bool:
    """Print the agreement per cause; return whether it reaches the aim over all."""
    print(f"{'NVIDIA says':28} {'ours':>5} {'of':>5} {'agree':>7}   left out on purpose")
    total = agreed = 0
    for cause in sorted({item.claim.cause for item in comparisons}):
        here = [item for item in comparisons if item.claim.cause == cause]
        judged = [item for item in here if item.claim.left_out is None]
        same = sum(item.agrees for item in judged)
        total, agreed = total + len(judged), agreed + same
        share = f"{100 * same / len(judged):.1f} %" if judged else "–"
        reasons = sorted({item.claim.left_out for item in here if item.claim.left_out})
        why = f"{len(here) - len(judged)}: {'; '.join(reasons)}" if reasons else ""
        print(f"{cause:28} {same:5} {len(judged):5} {share:>7}   {why}".rstrip())
    share_of_all = agreed / total if total else 0.0
    print(f"{'all':28} {agreed:5} {total:5} {100 * share_of_all:5.1f} %")
    return share_of_all >= AIM


def main() -> int:
    """Compare all binary reports in a folder and its subfolders: text exports lack the metrics behind the messages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="list the agreements too")
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.rglob("*") if path.name.endswith(REPORTS))
    comparisons = [item for path in paths for item in compare(path)]
    if not comparisons:
        print(f"no report with messages of NVIDIA's rules in {options.folder}", file=sys.stderr)
        return 2
    enough = print_table(comparisons)
    for item in comparisons:
        if item.claim.left_out is None and (options.all or not item.agrees):
            rules = ", ".join(finding.rule for finding in item.kernel.findings) or "nothing"
            print(f"\n{'=' if item.agrees else '≠'} {item.file} #{item.kernel.id} {item.kernel.label[:60]}")
            print(f"  NVIDIA ({item.claim.cause}): {item.message[:240]}")
            print(f"  gpuprof: {rules}")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
