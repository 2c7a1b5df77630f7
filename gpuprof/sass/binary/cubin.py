"""Reads a cubin: the kernels of an ELF file for one target, and what it says of each beside its code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.cubin_attributes import (
    FRAME_SIZE,
    MIN_STACK_SIZE,
    REGISTERS,
    CubinParameter,
    Dims,
    KernelAttributes,
    by_symbol,
    of_kernel,
)
from gpuprof.sass.binary.cubin_target import NEW_ABI, target_of
from gpuprof.sass.binary.elf import (
    INSTRUCTION_BYTES,
    RELOCATABLE,
    SYMBOL_TABLE,
    Elf,
    ElfSection,
    ElfSymbol,
    cubin_elf,
    text_at,
)

_FUNCTION = 2
_ENTRY = 0x10
"""STO_CUDA_ENTRY: the bit of a symbol that is a kernel."""
_RELOCATION = {4: 24, 9: 16}
"""The bytes of a relocation by the type of its section: RELA and REL."""
_RESERVED_FROM, _RESERVED_BYTES = 90, 1024
"""From Hopper on, the shared memory of a linked kernel starts with the 1 KiB that the driver keeps in each block."""
_UNKNOWN_STACK = 0xFFFFFFFF
"""Of a recursion or of calls by pointer."""
_MOST_NAMED_BYTES = 2**25


class InnerFunction(Struct, frozen=True, kw_only=True):
    """A function within the code of a kernel, such as the slow path of a division: offset and size in bytes."""

    name: str
    offset: int
    size_bytes: int


class CubinKernel(Struct, frozen=True, kw_only=True):
    """One kernel of a cubin, by its symbol. What the cubin does not say is None.

    `code` is its machine code, from its first instruction; empty where it was taken out. `stack_bytes` is the local
    memory of a thread, with that of what it calls. `parameters_offset` is where its parameters begin in constant
    bank 0. `inner` are functions within its code; `calls` are those outside it, by the offset of the instruction that
    names them.
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
    calls: tuple[tuple[int, str], ...] = ()


class Cubin(Struct, frozen=True, kw_only=True):
    """What a cubin holds. `target` is such as "sm_90a". `has_lines`: a line table; `has_debug`: code for a debugger.

    `relocatable`: it is to be linked (`-rdc=true`), so what its kernels call and take may be in other files.
    """

    target: str
    kernels: tuple[CubinKernel, ...]
    has_lines: bool
    has_debug: bool
    relocatable: bool = False


def read_cubin(data: bytes) -> Cubin:
    """Read a cubin. Raises DamagedInput for what is none, or is broken."""
    try:
        elf = cubin_elf(data)
        _check_sizes(elf)
        target = target_of(elf)
        return Cubin(
            target=target,
            kernels=_kernels(elf, target),
            has_lines=elf.named(b".debug_line") is not None,
            has_debug=elf.named(b".debug_info") is not None,
            relocatable=elf.kind == RELOCATABLE,
        )
    except IndexError as error:
        raise DamagedInput(
            "the cubin cannot be read: it refers to a section or symbol that it does not have"
        ) from error
    except (struct.error, ValueError, OverflowError) as error:
        raise DamagedInput(f"the cubin cannot be read: {error}") from error


def _check_sizes(elf: Elf) -> None:
    """Refuse sections that overlap, which would be copied as often as a hostile file names them.

    Blackwell's cubins have a second set of sections, `.nv.merc.*`, of which some lie where those of the first do.
    """
    held = sum(section.size for section in elf.sections if section.has_bytes)
    if held > 2 * len(elf.data):
        raise ValueError(f"its sections hold {held:,} bytes, and the file has {len(elf.data):,}")


class _Tables(Struct, frozen=True, kw_only=True):
    """What is read once for all kernels of a cubin: what belongs to some code names the number of its section.

    `functions` are the numbers of symbols by section, `numbers` those of `.nv.info` by attribute and symbol.
    """

    elf: Elf
    symbols: tuple[ElfSymbol, ...]
    names: Mapping[int, str]
    functions: Mapping[int, Sequence[int]]
    numbers: Mapping[int, Mapping[int, int]]
    info: Mapping[int, ElfSection]
    shared: Mapping[int, ElfSection]
    relocations: Mapping[int, ElfSection]


class _Code(NamedTuple):
    """The section of a kernel."""

    code: bytes
    inner: tuple[InnerFunction, ...]
    calls: tuple[tuple[int, str], ...]


def _kernels(elf: Elf, target: str) -> tuple[CubinKernel, ...]:
    tables = _tables(elf)
    if tables is None:
        return ()
    reserved = _RESERVED_BYTES if _number(target) >= _RESERVED_FROM and elf.kind != RELOCATABLE else 0
    codes: dict[int, _Code] = {}
    kernels = []
    for number, symbol in enumerate(tables.symbols):
        if symbol.kind == _FUNCTION and symbol.other & _ENTRY and symbol.section:
            if symbol.section not in codes:
                codes[symbol.section] = _code(tables, symbol.section, symbol.value)
            kernels.append(_kernel(tables, number, codes[symbol.section], reserved))
    return tuple(kernels)


def _tables(elf: Elf) -> _Tables | None:
    table = next((section for section in elf.sections if section.kind == SYMBOL_TABLE), None)
    if table is None:
        return None
    symbols = tuple(elf.symbols(table))
    info = elf.named(b".nv.info")
    functions: dict[int, list[int]] = {}
    for number, symbol in enumerate(symbols):
        if symbol.kind == _FUNCTION:
            functions.setdefault(symbol.section, []).append(number)
    return _Tables(
        elf=elf,
        symbols=symbols,
        names=_names(elf.content(elf.sections[table.link]), symbols),
        functions=functions,
        numbers=by_symbol(elf.content(info) if info is not None else b""),
        info=_by_owner(elf, lambda section: elf.starts(section, b".nv.info.")),
        shared=_by_owner(elf, lambda section: elf.starts(section, b".nv.shared.")),
        relocations=_by_owner(elf, lambda section: section.kind in _RELOCATION),
    )


def _names(strings: bytes, symbols: Sequence[ElfSymbol]) -> dict[int, str]:
    """Return the names of functions by the place of their text; a hostile file may have endless ones."""
    names: dict[int, str] = {}
    total = 0
    for symbol in symbols:
        if symbol.kind == _FUNCTION and symbol.name not in names:
            text = text_at(strings, symbol.name)
            total += len(text)
            if total > _MOST_NAMED_BYTES:
                raise ValueError(f"the names of its functions take more than {_MOST_NAMED_BYTES >> 20} MiB")
            names[symbol.name] = text.decode("utf-8", "replace")
    return names


def _by_owner(elf: Elf, wanted: Callable[[ElfSection], bool]) -> dict[int, ElfSection]:
    return {section.info: section for section in elf.sections if section.info and wanted(section)}


def _number(target: str) -> int:
    return int(target.removeprefix("sm_").rstrip("af"))


def _code(tables: _Tables, number: int, start: int) -> _Code:
    """Read the code of a kernel; `start` is the value of its symbol, an address where it was taken from a process."""
    section = tables.elf.sections[number]
    code = tables.elf.content(section)
    calls = _calls(tables, number) if number in tables.relocations else ()
    inner = sorted(_inner(tables, number, start), key=lambda function: function.offset)
    return _Code(code, tuple(inner), calls)


def _inner(tables: _Tables, section: int, start: int) -> Iterator[InnerFunction]:
    """Yield the functions in the code of a kernel that are no kernels, in their order."""
    size = tables.elf.sections[section].size
    for number in tables.functions.get(section, ()):
        symbol = tables.symbols[number]
        if not symbol.other & _ENTRY:
            offset = symbol.value if symbol.value < size else symbol.value - start
            if not 0 <= offset < size:
                raise ValueError("a function in it lies outside its code")
            yield InnerFunction(name=tables.names[symbol.name], offset=offset, size_bytes=symbol.size)


def _calls(tables: _Tables, section: int) -> tuple[tuple[int, str], ...]:
    """Return the functions elsewhere that the code names by a relocation, which may stand within an instruction."""
    table = tables.relocations[section]
    content = tables.elf.content(table)
    step = _RELOCATION[table.kind]
    calls = set()
    for at in range(0, len(content) // step * step, step):
        offset, info = struct.unpack_from("<QQ", content, at)
        symbol = tables.symbols[info >> 32]
        if symbol.kind == _FUNCTION and symbol.section != section:
            calls.add((offset // INSTRUCTION_BYTES * INSTRUCTION_BYTES, tables.names[symbol.name]))
    return tuple(sorted(calls))


def _kernel(tables: _Tables, number: int, code: _Code, reserved: int) -> CubinKernel:
    symbol = tables.symbols[number]
    section, shared = tables.elf.sections[symbol.section], tables.shared.get(symbol.section)
    info = tables.info.get(symbol.section)
    told = of_kernel(tables.elf.content(info)) if info is not None else KernelAttributes()
    calls = tuple(sorted({*code.calls, *_system_calls(tables, told)}))
    return CubinKernel(
        mangled=tables.names[symbol.name],
        code=code.code,
        registers=_registers(tables, number, section),
        static_shared_bytes=_without(reserved, shared.size) if shared is not None else 0,
        stack_bytes=_stack(tables, number, bool(calls or told.externs)),
        barriers=_barriers(tables.elf, section, told, known=info is not None),
        max_threads=told.max_threads,
        required_block=told.required_block,
        parameters=told.parameters,
        parameters_offset=told.parameters_offset,
        inner=code.inner,
        calls=calls,
    )


def _system_calls(tables: _Tables, told: KernelAttributes) -> Iterator[tuple[int, str]]:
    """Yield the calls of a function of the driver, such as vprintf, which no relocation of the code names.

    Of several such functions the attributes do not tell which is called where.
    """
    if len(told.externs) == 1:
        symbol = tables.symbols[told.externs[0]]
        if symbol.kind == _FUNCTION:
            for offset in told.syscalls:
                yield offset, tables.names[symbol.name]


def _registers(tables: _Tables, number: int, section: ElfSection) -> int | None:
    """Return the registers of a thread; what toolkits before 11 wrote, and cuBLAS does, is only in the section."""
    in_section = section.info >> 24 if tables.elf.abi_version < NEW_ABI else 0
    return tables.numbers[REGISTERS].get(number, in_section or None)


def _without(reserved: int, size: int) -> int:
    return size - reserved if size >= reserved else size


def _stack(tables: _Tables, number: int, calls: bool) -> int | None:
    """Return the stack of a kernel with all that it calls; before linking that is not known of one that calls."""
    least = tables.numbers[MIN_STACK_SIZE].get(number)
    if least is not None:
        return least if least != _UNKNOWN_STACK else None
    return None if calls else tables.numbers[FRAME_SIZE].get(number)


def _barriers(elf: Elf, section: ElfSection, told: KernelAttributes, *, known: bool) -> int | None:
    """Return the barriers of a block: an attribute of kernels that have some, before that bits of the section."""
    if told.barriers is not None:
        return told.barriers
    if elf.abi_version < NEW_ABI:
        return section.flags >> 20 & 0x7F
    return 0 if known else None
