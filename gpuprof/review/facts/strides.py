"""The reasons for unknown costs of accesses, and their costs by the value of an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from msgspec.structs import replace

from gpuprof.review.code import KernelCode
from gpuprof.review.facts.solutions import block_of, solution_in, solution_of
from gpuprof.review.kernel import ArgumentPart
from gpuprof.sass.dataflow.accesses import access_of
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress, addresses_of, stride_of
from gpuprof.sass.dataflow.launch_constants import size_offsets
from gpuprof.sass.dataflow.request_costs import sectors, wavefronts
from gpuprof.sass.dataflow.warps import THREAD_INDICES, ThreadBlock

_MOST_NAMED = 3
_VALUES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Values of an argument whose costs are shown; larger ones cost the same as the last."""
_BANKS = 32
_BLOCK_NEEDED = "the block size is needed: --block"
_GRID_NEEDED = "the grid size is needed: --grid"
_FULL_ROWS = " (if rows of the block fill warps: --block)"
_BY_PATHS = "lanes reach it by different paths, with different addresses"
_AXES = "xyz"
_LARGEST_START = 1 << 20
"""A power of two that is larger than what alignment depends on."""


def unknown_causes(code: KernelCode) -> Mapping[tuple[int, str], str]:
    """Return the reasons for unknown costs, by offset and space of the access.

    For example, "the stride is argument 2 (n): 1 → 4 sectors, 32 or more → 32".
    """
    addresses = kernel_addresses(code)
    if addresses is None:
        return {}
    explanation = _Explanation(code, addresses)
    causes: dict[tuple[int, str], str] = {}
    for key, item in addresses.by_request.items():
        cause = explanation.cause(item)
        if cause:
            causes[key] = cause
    return causes


@lru_cache(maxsize=2)
def kernel_addresses(code: KernelCode) -> KernelAddresses | None:
    """Return the addresses of a kernel in its first warp; None if the code cannot be analysed."""
    block = block_of(code)
    solution = solution_in(code, ThreadBlock(block)) if block is not None else solution_of(code)
    return addresses_of(solution) if solution is not None else None


def costs_of_values(item: LaneAddress) -> Mapping[int, int]:
    """Return the cost of a request by the value of its only unknown factor; empty if there are several.

    The cost is sectors of global memory or wavefronts of shared memory. Other unknown parts of the address count as 0.
    """
    costs = {}
    for value in _VALUES:
        lanes = item.lanes(value)
        if lanes is None:
            continue
        access = replace(
            access_of(item.instruction, item.request), offsets=tuple(lanes), start=item.offset % _LARGEST_START
        )
        cost = wavefronts(access) if item.request.space == "shared" else sectors(access)
        if cost is not None:
            costs[value] = cost
    return costs


def stride_arguments(code: KernelCode, item: LaneAddress) -> tuple[ArgumentPart, ...]:
    """Return the arguments whose product is the unknown factor of a stride; none if the factor is no such product."""
    if len(item.times) != 1 or item.varying:
        return ()
    parts = [_argument(code, symbol) for factors in item.times for symbol in factors]
    return tuple(part for part in parts if part is not None) if None not in parts else ()


def argument_words(parts: Iterable[ArgumentPart]) -> str:
    """Return the names of arguments and parts: "argument 2 (n) × in.stride"."""
    return " × ".join(part.words for part in list(dict.fromkeys(parts))[:_MOST_NAMED])


def cost_words(item: LaneAddress) -> str:
    """Return the cost of a request by the value of its unknown stride, in words: "1 → 4 sectors, 8 or more → 32"."""
    costs = costs_of_values(item)
    if len(costs) < len(_VALUES):
        return ""
    if item.request.space == "shared":
        least, most = costs[1], costs[_BANKS]
        return f"1 → {_counted(least, 'wavefront')}, {_BANKS} → {most}" if least != most else ""
    last = costs[_VALUES[-1]]
    if costs[1] == last:
        return f"1 or more → {_counted(last, 'sector')}"
    smaller = [value for value in _VALUES if costs[value] != last]
    since = min(value for value in _VALUES if value > max(smaller))
    return f"1 → {_counted(costs[1], 'sector')}, {since} or more → {last}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _bank_offset(symbol: str) -> int | None:
    """Return the offset in constant bank 0 of a symbol."""
    if not symbol.startswith("c[0x0][0x") or not symbol.endswith("]"):
        return None
    try:
        return int(symbol[len("c[0x0][") : -1], 16)
    except ValueError:
        return None


def _argument(code: KernelCode, symbol: str) -> ArgumentPart | None:
    """Return the argument, or the part of one, with the value of a symbol."""
    offset, begin = _bank_offset(symbol), code.kernel.kernel.parameters_offset
    return code.kernel.part_at(offset - begin) if offset is not None and begin is not None else None


class _Explanation:
    """Explains the unknown accesses of one kernel."""

    def __init__(self, code: KernelCode, addresses: KernelAddresses) -> None:
        self._code, self._addresses = code, addresses
        self._causes: dict[str, str] = {}
        self._needs_block = block_of(code) is None and any(
            name in addresses.solution.symbols.by_name for name in THREAD_INDICES
        )
        self._block_words, self._grid_words = size_offsets(code.kernel.target)

    def cause(self, item: LaneAddress) -> str:
        """Return the reason for the unknown cost of a request; empty if there is no specific one."""
        if item.known:
            return _BLOCK_NEEDED if self._needs_block else ""
        if item.varying:
            return next(filter(None, map(self._cause_of_symbol, item.varying)), "")
        return self._stride(item)

    def _stride(self, item: LaneAddress) -> str:
        factor_names = {self._factors(factors) for factors in item.times}
        if None in factor_names:
            return ""
        vectors = list(item.times.values())
        by = stride_of(vectors[0]) if len(vectors) == 1 else None
        rest = stride_of(item.apart)
        names = " and ".join(sorted(name for name in factor_names if name))
        costs = cost_words(item)
        needs = _GRID_NEEDED if "gridDim" in names else costs
        tail = f": {needs}" if needs else ""
        if self._needs_block and needs is costs and costs:
            tail += _FULL_ROWS
        if by is None or rest is None:
            return f"the distance between lanes depends on {names}{tail}"
        stride = f"{names} × {by} B"
        if rest:
            sign = "+" if rest > 0 else "-"
            stride += f" {sign} {abs(rest)} B"
        return f"the stride from lane to lane is {stride}{tail}"

    def _factors(self, factors: Sequence[str]) -> str | None:
        """Return the names of the factors of a product that all lanes share."""
        parts = [_argument(self._code, symbol) for symbol in factors]
        if None not in parts:
            return argument_words(part for part in parts if part is not None)
        names = [self._shared(symbol) for symbol in factors]
        return " × ".join(name for name in names if name) if None not in names else None

    def _shared(self, symbol: str) -> str | None:
        """Return the name of a value that all lanes share."""
        part = _argument(self._code, symbol)
        if part is not None:
            return part.words
        at = _bank_offset(symbol)
        for offsets, name in ((self._block_words, "blockDim"), (self._grid_words, "gridDim")):
            if at in offsets:
                return f"{name}.{_AXES[offsets.index(at)]}"
        kind = self._addresses.symbol(symbol).kind
        if kind in {"loaded", "shared"}:
            return f"a value loaded{self._at([symbol])}"
        if symbol.startswith("SR_CTAID"):
            return "the block index"
        arguments = self._arguments(self._addresses.leaves(symbol))
        return f"a value computed from {arguments}" if arguments else "a value that the code computes"

    def _cause_of_symbol(self, symbol: str) -> str:
        if symbol not in self._causes:
            self._causes[symbol] = self._differs(symbol)
        return self._causes[symbol]

    def _differs(self, symbol: str) -> str:
        """Return the reason why lanes differ in a symbol; empty if unknown."""
        leaves = self._addresses.leaves(symbol)
        loaded = [leaf for leaf in leaves if self._addresses.symbol(leaf).kind in {"loaded", "shared"}]
        kind = self._addresses.symbol(symbol).kind
        if kind in {"loaded", "shared"} or (loaded and kind == "result"):
            return self._gather(loaded or [symbol])
        deciding = self._arguments(self._addresses.deciding(symbol))
        if deciding:
            return f"{deciding} selects one of several addresses"
        if loaded:
            return self._gather(loaded)
        arguments = self._arguments(leaves)
        if kind == "join":
            return _BY_PATHS
        if arguments and kind != "start":
            return f"it is computed from the thread index and {arguments} by more than a product, such as a division"
        return _BLOCK_NEEDED if self._needs_block else ""

    def _gather(self, loaded: Sequence[str]) -> str:
        shared = all(self._addresses.symbol(leaf).kind == "shared" for leaf in loaded)
        memory = "shared memory" if shared else "memory"
        return f"the address depends on a value loaded from {memory}{self._at(loaded)} (a gather)"

    def _at(self, symbols: Sequence[str]) -> str:
        places = [address for name in symbols if (address := self._addresses.symbol(name).address) is not None]
        lines = {self._code.lines[address] for address in sorted(places) if address in self._code.lines}
        if lines:
            file, line = min(lines)
            return f" at {file.rpartition('/')[2]:.100}:{line}"
        return f" at offset {min(places):#x}" if places else ""

    def _arguments(self, leaves: Iterable[str]) -> str:
        return argument_words(sorted(self._numbers(leaves))).replace(" × ", " and ")

    def _numbers(self, leaves: Iterable[str]) -> Iterator[ArgumentPart]:
        """Yield the arguments and members of structures that are not pointers."""
        for leaf in leaves:
            part = _argument(self._code, leaf)
            if part is not None and not part.path.startswith("+") and part not in self._pointers:
                yield part

    @cached_property
    def _pointers(self) -> frozenset[ArgumentPart]:
        """Return the arguments that are bases of addresses."""
        bases = (part for item in self._addresses.by_request.values() for part in item.base.split(" + "))
        symbols = (part.partition("·")[2] for part in bases if part.startswith("1·"))
        parts = (_argument(self._code, symbol) for symbol in symbols)
        return frozenset(part for part in parts if part is not None)
