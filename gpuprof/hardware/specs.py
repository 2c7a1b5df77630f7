"""What a spec file says, as typed values: facts with their source, rates by path, counter chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.yaml_tree import FileLine

SCALAR_PATHS = ("fp64", "fp32", "fp16", "int32")
TENSOR_PATHS = (
    "tensor.fp64", "tensor.tf32", "tensor.fp16", "tensor.bf16", "tensor.fp8",
    "tensor.fp6", "tensor.fp4", "tensor.int8", "tensor.int4", "tensor.int1",
)  # fmt: skip
PATHS = SCALAR_PATHS + TENSOR_PATHS
Level = Literal["l1", "l2", "dram"]
LEVELS: tuple[Level, ...] = get_args(Level)
Basis = Literal["counted", "derived", "estimated"]
BASES: tuple[Basis, ...] = get_args(Basis)
PIPES = (
    "fma", "fmaheavy", "fmalite", "alu", "fp64", "fp16", "tensor", "xu", "lsu", "tex", "uniform", "adu", "cbu",
)  # fmt: skip
COUNTS = (
    "instructions", "thread-instructions", "global-load-requests", "global-store-requests", "global-load-sectors",
    "global-store-sectors", "local-load-sectors", "local-store-sectors", "shared-wavefronts", "bank-conflicts",
    "l2-sectors",
)  # fmt: skip
"""What two runs of a kernel are compared by, beside work, bytes and opcodes."""
ACCUMULATORS = ("fp64", "fp32", "fp16", "int32")
INSTRUCTIONS = ("mma.sync", "wgmma", "tcgen05")


class ComputeKey(NamedTuple):
    """A compute path; for tensor paths also the accumulator and, in arch specs, the instruction family."""

    path: str
    accumulator: str | None = None
    instruction: str | None = None

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


class Fact(Struct, frozen=True):
    """A value in base units with its evidence. `values` holds more than one for a list."""

    value: float
    unit: str
    source: str
    kind: str
    place: FileLine
    confirmed: bool = True
    note: str | None = None
    clock_hz: float | None = None
    values: tuple[float, ...] = ()


class CounterLink(Struct, frozen=True):
    """One way to obtain a quantity from metrics: Σ factor × metric, turned into a total as `how` says."""

    how: str
    terms: tuple[tuple[str, float], ...]
    basis: Basis
    definition: str | None
    place: FileLine


Chain = tuple[CounterLink, ...]


class ArchSpec(Struct, frozen=True):
    """What one SM of a compute capability can do, what its counters are called, and the target of compiled kernels."""

    name: str
    compute_capability: str
    family: str
    chips: tuple[str, ...]
    ncu_chip: str | None
    target: str | None
    limits: Mapping[str, Fact]
    compute: Mapping[ComputeKey, Fact]
    geforce: Mapping[ComputeKey, Fact | None]
    operations: Mapping[str, Fact]
    bandwidth: Mapping[str, Fact]
    stalls: tuple[str, ...]
    counters: Mapping[str, Chain]
    file: str

    def limit(self, name: str) -> int:
        """Return an integer limit per SM or block, as named in the spec files."""
        return round(self.limits[name].value)


THREAD_OPCODES = "sass__thread_inst_executed_true_per_opcode"
WARP_OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"


def without_absent_links(arch: ArchSpec, names: frozenset[str]) -> ArchSpec:
    """Return the architecture with only those links that a report holding these metric names can satisfy.

    A chain that none of them satisfies keeps its first link, which names what is missing.
    """
    kept = {
        quantity: tuple(link for link in chain if names.issuperset(metrics_of(link))) or chain[:1]
        for quantity, chain in arch.counters.items()
    }
    return replace(arch, counters=kept)


def metrics_of(link: CounterLink) -> tuple[str, ...]:
    """Return the metrics that a report must have for a link."""
    opcodes = {"thread-opcodes": (THREAD_OPCODES,), "tensor-opcodes": (WARP_OPCODES,)}
    return opcodes.get(link.how) or tuple(name for name, _ in link.terms)


class Match(Struct, frozen=True):
    """How a recorded device is recognised as this product."""

    names: tuple[str, ...]
    pci_ids: tuple[str, ...]
    sm_count: int | None
    memory_bytes: float | None


class GpuSpec(Struct, frozen=True):
    """A product: how many SMs, at which clocks, with which memory, and what its datasheet promises."""

    name: str
    title: str
    arch: str
    match: Match
    facts: Mapping[str, Fact]
    rated: Mapping[ComputeKey, Fact]
    compute: Mapping[ComputeKey, Fact | None]
    file: str
    place: FileLine

    def number(self, name: str) -> float | None:
        """Return a fact's value in base units, or None where the spec does not give it."""
        fact = self.facts.get(name)
        return fact.value if fact is not None else None


_OF_ALL_PRODUCTS = ("fp32", "int32")
"""All known products of an architecture have the same rates of these per SM; of others some have less (H20, L40)."""


def is_geforce_rtx(name: str) -> bool:
    """Return whether a GPU of this name is a GeForce RTX card, all of which limit some tensor rates alike."""
    return "GeForce RTX" in name


def compute_rates(arch: ArchSpec, gpu: GpuSpec) -> dict[ComputeKey, Fact]:
    """Return FLOP (or OP) per clock and SM by path: the architecture's, with the product's exceptions applied."""
    of_family = arch.geforce if is_geforce_rtx(gpu.title) else {}
    return _with_exceptions(arch.compute, {**of_family, **gpu.compute})


def rates_without_spec(arch: ArchSpec, name: str | None) -> dict[ComputeKey, Fact]:
    """Return the rates of a product that no spec describes: those that all products of its architecture share.

    GeForce RTX cards share all rates.
    """
    if name is not None and is_geforce_rtx(name):
        return _with_exceptions(arch.compute, arch.geforce)
    return {key: fact for key, fact in arch.compute.items() if key.path in _OF_ALL_PRODUCTS}


def _with_exceptions(
    rates: Mapping[ComputeKey, Fact], exceptions: Mapping[ComputeKey, Fact | None]
) -> dict[ComputeKey, Fact]:
    return {key: fact for key, fact in {**rates, **exceptions}.items() if fact is not None}
