"""Reads a cubin: the kernels of an ELF file for one target, their code and its attributes.

Where it has its target, before and since CUDA 13, was found by compiling for every architecture and comparing with the
output of cuobjdump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

from msgspec import Struct

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.cubin_attributes import (
    Attributes,
    CubinParameter,
    Dims,
    attributes,
    by_symbol,
    dims_in,
    last_of,
    parameters_in,
    spills_in,
)
from gpuprof.sass.binary.elf import (
    RELOCATABLE,
    Elf,
    ElfSection,
    ElfSymbol,
    cubin_elf,
    refusing_damage,
)

_NEW_ABI = 8
"""The ABI version from which the flags of the header have the architecture in bits 8 to 23: CUDA 13, and Blackwell."""
_ACCELERATED_OLD, _ACCELERATED_NEW = 1 << 11, 1 << 3
_ACCELERATED = 0x09
"""The attribute of `.nv.compat` that cuobjdump names EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET."""
_FAMILY = re.compile(rb"-arch[ =]sm_(\d+)f\b")
"""A family target (`f`) appears only in the options of ptxas, which `.note.nv.tkinfo` records since CUDA 12.9."""

_FUNCTION = 2
_ENTRY = 0x10
"""STO_CUDA_ENTRY: the bit of a symbol that is a kernel."""
_RESERVED_FROM, _RESERVED_BYTES = 90, 1024
"""From Hopper on, the shared memory of a linked kernel starts with the 1 KiB that the driver keeps in each block."""
_UNKNOWN_STACK = 0xFFFFFFFF
"""Of a recursion or of calls by pointer."""
_MAX_THREADS = 0x05
_PARAMETER_BANK = 0x0A
_EXTERNS = 0x0F
_REQUIRED_BLOCK = 0x10
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_REGISTERS = 0x2F
_BARRIERS = 0x4C


class InnerFunction(Struct, frozen=True, kw_only=True):
    """A function within the code of a kernel, such as the slow path of a division: offset and size in bytes."""

    name: str
    offset: int
    size_bytes: int


class CubinKernel(Struct, frozen=True, kw_only=True):
    """One kernel of a cubin, by its symbol. A field that the cubin does not give is None.

    `code` is its machine code from the first instruction on, empty if it was taken out. `stack_bytes` is the local
    memory of a thread, including its calls. `parameters_offset` is the start of its parameters in constant bank 0.
    `inner` are functions within its code. `spills` are the offsets of instructions that the toolkit marks as spills,
    None if it marks none.
    """

    mangled: str
    code: bytes
    registers: int | None = None
    static_shared_bytes: int | None = 0
    stack_bytes: int | None = None
    barriers: int | None = None
    max_threads: int | None = None
    required_block: Dims | None = None
    parameters: tuple[CubinParameter, ...] = ()
    parameters_offset: int | None = None
    inner: tuple[InnerFunction, ...] = ()
    spills: frozenset[int] | None = None


class Cubin(Struct, frozen=True, kw_only=True):
    """The kernels of a cubin for a target such as "sm_90a".

    `relocatable`: it is to be linked (`-rdc=true`), so its kernels may call and use what other files have.
    """

    target: str
    kernels: tuple[CubinKernel, ...]
    relocatable: bool = False


def read_cubin(data: bytes) -> Cubin:
    """Read a cubin. Raises DamagedInput if it is none or damaged."""
    with refusing_damage("the cubin"):
        elf = cubin_elf(data)
        _check_sizes(elf)
        target = target_of(elf)
        return Cubin(target=target, kernels=tuple(_Kernels(elf, target)), relocatable=elf.kind == RELOCATABLE)


def target_of(elf: Elf) -> str:
    """Return the architecture, with `a` if the code runs on that alone and `f` if it runs on its family."""
    if elf.abi_version < _NEW_ABI:
        return f"sm_{elf.flags & 0xFF}{'a' if elf.flags & _ACCELERATED_OLD else ''}"
    number = elf.flags >> 8 & 0xFFFF
    compat = attributes(elf.named(".nv.compat"))
    if elf.flags & _ACCELERATED_NEW or any(value[:1] == b"\1" for value in compat.get(_ACCELERATED, ())):
        return f"sm_{number}a"
    families = set(_FAMILY.findall(elf.named(".note.nv.tkinfo")))
    return f"sm_{number}f" if families == {b"%d" % number} else f"sm_{number}"


def kernel_code(cubin: bytes, entry: str) -> bytes:
    """Return the instructions of a kernel, by its mangled name.

    Raises DamagedInput if this is no cubin, is damaged, or has no such kernel.
    """
    kernels = {kernel.mangled: kernel for kernel in read_cubin(cubin).kernels}
    if entry not in kernels or not kernels[entry].code:
        raise DamagedInput(f"the cubin has no kernel {entry!r:.200}; it has {', '.join(kernels) or 'none':.1000}")
    return kernels[entry].code


def _check_sizes(elf: Elf) -> None:
    """Refuse sections that overlap, which would be copied as often as a hostile file names them.

    Blackwell's cubins have a second set of sections, `.nv.merc.*`, some of which lie in the bytes of the first set.
    """
    size = sum(section.size for section in elf.sections if section.has_bytes)
    if size > 2 * len(elf.data):
        raise ValueError(f"its sections hold {size:,} bytes, and the file has {len(elf.data):,}")


class _Kernels:
    """Reads the kernels of a cubin: tables that all share, by number of the section with the code or of the symbol."""

    def __init__(self, elf: Elf, target: str) -> None:
        of_functions = attributes(elf.named(".nv.info"))
        self._elf = elf
        self._symbols = elf.symbols()
        self._registers = by_symbol(of_functions, _REGISTERS)
        self._frames = by_symbol(of_functions, _FRAME_SIZE)
        self._stacks = by_symbol(of_functions, _MIN_STACK_SIZE)
        self._info = self._by_owner(".nv.info.")
        self._shared = self._by_owner(".nv.shared.")
        self._relocations = self._by_owner(".rel.text.", ".rela.text.")
        is_reserved = int(target.strip("sm_af")) >= _RESERVED_FROM and elf.kind != RELOCATABLE
        self._reserved_bytes = _RESERVED_BYTES if is_reserved else 0

    def _by_owner(self, *prefixes: str) -> dict[int, ElfSection]:
        return {section.info: section for section in self._elf.sections if section.name.startswith(prefixes)}

    def __iter__(self) -> Iterator[CubinKernel]:
        """Yield the kernels in the order of their symbols. Each has a code section of its own."""
        functions: dict[int, list[ElfSymbol]] = {}
        for symbol in self._symbols:
            if symbol.kind == _FUNCTION and symbol.section:
                functions.setdefault(symbol.section, []).append(symbol)
        for number, symbol in enumerate(self._symbols):
            if symbol.section in functions and symbol.kind == _FUNCTION and symbol.other & _ENTRY:
                yield self._kernel(number, functions.pop(symbol.section))

    def _kernel(self, number: int, functions: Sequence[ElfSymbol]) -> CubinKernel:
        """Return the kernel of a symbol, with the `functions` in the section of its code."""
        symbol = self._symbols[number]
        section = self._elf.sections[symbol.section]
        found = attributes(self._elf.content(self._info.get(symbol.section)))
        shared = self._shared.get(symbol.section)
        bank = last_of(found, _PARAMETER_BANK)
        max_block = dims_in(last_of(found, _MAX_THREADS))
        return CubinKernel(
            mangled=symbol.name,
            code=self._elf.content(section),
            # Toolkits before 11, and cuBLAS, have them in the section alone.
            registers=self._registers.get(number, section.info >> 24) or None,
            static_shared_bytes=max(0, shared.size - self._reserved_bytes) if shared is not None else 0,
            stack_bytes=self._stack_bytes(number, found),
            barriers=self._barriers(section, found),
            max_threads=prod(max_block) if max_block is not None else None,
            required_block=dims_in(last_of(found, _REQUIRED_BLOCK)),
            parameters=parameters_in(found),
            parameters_offset=int.from_bytes(bank[4:6], "little") if bank else None,
            inner=_inner(functions, symbol, section.size),
            spills=spills_in(found),
        )

    def _stack_bytes(self, number: int, found: Attributes) -> int | None:
        """Return the stack of a kernel with all its calls; before linking, that of a kernel with calls is not known."""
        if number in self._stacks:
            return self._stacks[number] if self._stacks[number] != _UNKNOWN_STACK else None
        has_calls = _EXTERNS in found or self._calls_others(self._symbols[number].section)
        return None if has_calls else self._frames.get(number)

    def _calls_others(self, code: int) -> bool:
        """Return whether a relocation of a section of code names a function elsewhere."""
        if code not in self._relocations:
            return False
        named = [self._symbols[number] for _, number in self._elf.relocations(self._relocations[code])]
        return any(symbol.kind == _FUNCTION and symbol.section != code for symbol in named)

    def _barriers(self, section: ElfSection, found: Attributes) -> int:
        """Return the number of barriers of a block: from the section's flags in old cubins, else from an attribute."""
        if self._elf.abi_version < _NEW_ABI:
            return section.flags >> 20 & 0x7F
        return int.from_bytes(last_of(found, _BARRIERS)[:1], "little")


def _inner(functions: Sequence[ElfSymbol], kernel: ElfSymbol, size: int) -> tuple[InnerFunction, ...]:
    """Return the functions in the code of a kernel that are no kernels, by their offsets.

    The value of a symbol is an address, rather than an offset, if the code was taken from a process.
    """
    inner = []
    for symbol in functions:
        if not symbol.other & _ENTRY:
            offset = symbol.value if symbol.value < size else symbol.value - kernel.value
            if not 0 <= offset < size:
                raise ValueError("a function in it lies outside its code")
            inner.append(InnerFunction(name=symbol.name, offset=offset, size_bytes=symbol.size))
    return tuple(sorted(inner, key=lambda function: function.offset))
