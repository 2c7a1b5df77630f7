"""Reads a cubin: the kernels of an ELF file for one target, their code and its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.cubin_attributes import (
    Attributes,
    CubinParameter,
    Dims,
    attributes,
    by_symbol,
    dims_in,
    last_of,
    numbers_in,
    parameters_in,
    spills_in,
)
from gpuprof.sass.binary.cubin_target import NEW_ABI, target_of
from gpuprof.sass.binary.elf import (
    INSTRUCTION_BYTES,
    RELOCATABLE,
    SYMBOL_TABLE,
    Elf,
    ElfSection,
    cubin_elf,
    refusing_damage,
)

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
_SYSCALL_OFFSETS = 0x46
_BARRIERS = 0x4C
_NAMES_SHOWN, _LONGEST_SHOWN = 5, 200

Calls = tuple[tuple[int, str], ...]


class InnerFunction(Struct, frozen=True, kw_only=True):
    """A function within the code of a kernel, such as the slow path of a division: offset and size in bytes."""

    name: str
    offset: int
    size_bytes: int


class CubinKernel(Struct, frozen=True, kw_only=True):
    """One kernel of a cubin, by its symbol. A field that the cubin does not give is None.

    `code` is its machine code from the first instruction on, empty if it was taken out. `stack_bytes` is the local
    memory of a thread, including its calls. `parameters_offset` is the start of its parameters in constant bank 0.
    `inner` are functions within its code; `calls` are those outside it, by the offset of the instruction that names
    them. `spills` are the offsets of instructions that the toolkit marks as spills, None if it marks none.
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
    calls: Calls = ()
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
        symbol_table = next((section for section in elf.sections if section.kind == SYMBOL_TABLE), None)
        kernels = _Kernels(elf, target, symbol_table).read() if symbol_table is not None else ()
        return Cubin(target=target, kernels=kernels, relocatable=elf.kind == RELOCATABLE)


def kernel_code(cubin: bytes, entry: str) -> bytes:
    """Return the instructions of a kernel, by its mangled name.

    Raises DamagedInput if this is no cubin, is damaged, or has no such kernel.
    """
    kernels = read_cubin(cubin).kernels
    for kernel in kernels:
        if kernel.mangled == entry and kernel.code:
            return kernel.code
    names = ", ".join(kernel.mangled[:_LONGEST_SHOWN] for kernel in kernels[:_NAMES_SHOWN])
    raise DamagedInput(f"the cubin has no kernel {entry!r:.200}; it has {names or 'none'}")


def _check_sizes(elf: Elf) -> None:
    """Refuse sections that overlap, which would be copied as often as a hostile file names them.

    Blackwell's cubins have a second set of sections, `.nv.merc.*`, some of which lie in the bytes of the first set.
    """
    size = sum(section.size for section in elf.sections if section.has_bytes)
    if size > 2 * len(elf.data):
        raise ValueError(f"its sections hold {size:,} bytes, and the file has {len(elf.data):,}")


class _Kernels:
    """Reads the kernels of a cubin: tables that all share, by number of the section with the code or of the symbol."""

    def __init__(self, elf: Elf, target: str, symbol_table: ElfSection) -> None:
        of_functions = attributes(elf.content(elf.named(".nv.info")))
        self._elf = elf
        self._symbols = elf.symbols(symbol_table)
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

    def read(self) -> tuple[CubinKernel, ...]:
        """Return the kernels in the order of their symbols."""
        functions: dict[int, list[int]] = {}
        for number, symbol in enumerate(self._symbols):
            if symbol.kind == _FUNCTION and symbol.section:
                functions.setdefault(symbol.section, []).append(number)
        kernels: dict[int, CubinKernel] = {}
        for section, numbers in functions.items():
            kernels.update(self._in_section(section, numbers))
        return tuple(kernels[number] for number in sorted(kernels))

    def _in_section(self, number: int, functions: Sequence[int]) -> dict[int, CubinKernel]:
        """Return the kernels of a section by the numbers of their symbols: one, and its other names if it has any."""
        entries = [function for function in functions if self._symbols[function].other & _ENTRY]
        if not entries:
            return {}
        section = self._elf.sections[number]
        found = attributes(self._elf.content(self._info.get(number)))
        externs = numbers_in(last_of(found, _EXTERNS))
        calls = tuple(sorted({*self._calls(number), *self._system_calls(found, externs)}))
        bank = last_of(found, _PARAMETER_BANK)
        max_block = dims_in(last_of(found, _MAX_THREADS))
        kernel = CubinKernel(
            mangled="",
            code=self._elf.content(section),
            static_shared_bytes=self._shared_bytes(number),
            barriers=self._barriers(number, found),
            max_threads=max_block[0] * max_block[1] * max_block[2] if max_block is not None else None,
            required_block=dims_in(last_of(found, _REQUIRED_BLOCK)),
            parameters=parameters_in(found),
            parameters_offset=int.from_bytes(bank[4:6], "little") if len(bank) == 8 else None,
            inner=self._inner(functions, section.size, self._symbols[entries[0]].value),
            calls=calls,
            spills=spills_in(found),
        )
        kernels = {}
        for entry in entries:
            kernels[entry] = replace(
                kernel,
                mangled=self._symbols[entry].name,
                registers=self._registers_of(entry, section),
                stack_bytes=self._stack_bytes(entry, has_calls=bool(calls or externs)),
            )
        return kernels

    def _calls(self, number: int) -> Iterator[tuple[int, str]]:
        """Yield the functions elsewhere that the code names by a relocation, which may lie within an instruction."""
        section = self._relocations.get(number)
        for place, called, _ in self._elf.relocations(section) if section is not None else ():
            symbol = self._symbols[called]
            if symbol.kind == _FUNCTION and symbol.section != number:
                yield place // INSTRUCTION_BYTES * INSTRUCTION_BYTES, symbol.name

    def _system_calls(self, found: Attributes, externs: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Yield the calls of a function of the driver, such as vprintf, which no relocation of the code names.

        If there are several such functions, the attributes do not say which one an instruction calls.
        """
        if len(externs) == 1 and self._symbols[externs[0]].kind == _FUNCTION:
            for offset in numbers_in(last_of(found, _SYSCALL_OFFSETS)):
                yield offset, self._symbols[externs[0]].name

    def _registers_of(self, entry: int, section: ElfSection) -> int | None:
        """Return the registers of a thread; toolkits before 11, and cuBLAS, have them in the section alone."""
        registers = self._registers.get(entry)
        if registers is None and self._elf.abi_version < NEW_ABI:
            registers = section.info >> 24 or None
        return registers

    def _shared_bytes(self, number: int) -> int:
        if number not in self._shared:
            return 0
        size = self._shared[number].size
        return size - self._reserved_bytes if size >= self._reserved_bytes else size

    def _stack_bytes(self, entry: int, *, has_calls: bool) -> int | None:
        """Return the stack of a kernel with all its calls; before linking, that of a kernel with calls is not known."""
        least = self._stacks.get(entry)
        if least is not None:
            return least if least != _UNKNOWN_STACK else None
        return None if has_calls else self._frames.get(entry)

    def _barriers(self, number: int, found: Attributes) -> int | None:
        """Return the barriers of a block: an attribute of kernels that have some, in old cubins bits of the section."""
        if _BARRIERS in found:
            return found[_BARRIERS][-1][0]
        if self._elf.abi_version < NEW_ABI:
            return self._elf.sections[number].flags >> 20 & 0x7F
        return 0 if number in self._info else None

    def _inner(self, functions: Sequence[int], size: int, start: int) -> tuple[InnerFunction, ...]:
        """Return the functions in the code of a kernel that are no kernels, by their offsets.

        `start` is the value of the kernel's symbol, an address if the code was taken from a process.
        """
        inner = []
        for function in functions:
            symbol = self._symbols[function]
            if not symbol.other & _ENTRY:
                offset = symbol.value if symbol.value < size else symbol.value - start
                if not 0 <= offset < size:
                    raise ValueError("a function in it lies outside its code")
                inner.append(InnerFunction(name=symbol.name, offset=offset, size_bytes=symbol.size))
        return tuple(sorted(inner, key=lambda function: function.offset))
