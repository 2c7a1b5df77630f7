"""What the fields of PyTorch's events mean: operators with shapes, directions of copies, collectives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpuprof.model.torch_ranges import operator_text
from gpuprof.read.timeline_parts import count
from gpuprof.read.torch_json import shape
from gpuprof.timeline.torch_flop import element_bytes
from gpuprof.timeline.torch_pointwise import POINTWISE, pointwise_bytes
from gpuprof.timeline.trace import DIRECTIONS, PAGEABLE, PINNED, UNIFIED, Collective, MatrixProduct, TensorShape

_DIRECTION = re.compile(r"Memcpy ([HDAP])to([HDAP])\b")
_DIRECTIONS = dict(zip(("HD", "DH", "DD", "PP", "HH"), DIRECTIONS, strict=True))
blocks = re.compile(r"Memcpy DtoH \(\w+ -> Pageable\)").match
"""Return a match for the name of a copy whose call returns when it is done."""
_MEMORY = re.compile(r"\b(Pageable|Pinned|Managed)\b")
_MEMORIES = {"Pageable": PAGEABLE, "Pinned": PINNED, "Managed": UNIFIED}
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier")
COLLECTIVE_NAME = "Collective name"


def operator_with_shapes(name: str, args: Mapping[str, Any]) -> str:
    """Return "aten::addmm [512, 1024]×[1024, 1024]": an operator with the shapes of its tensors, if recorded."""
    return operator_text(name, list(_shapes(args.get("Input Dims"))))


def product(name: str, start_s: float, args: Mapping[str, Any]) -> MatrixProduct:
    """Return a call of an operator that multiplies matrices, with what the trace says of its inputs."""
    return MatrixProduct(
        name=name,
        start_s=start_s,
        shapes=_tensors(args.get("Input Dims")),
        dtypes=_texts(args.get("Input type")),
        settings=_texts(args.get("Concrete Inputs")),
        strides=_tensors(args.get("Input Strides")) or (),
    )


def operand_bytes(name: str, args: Mapping[str, Any]) -> int | None:
    """Return the bytes that a call of a point-wise operator reads and writes; None if the trace does not show it."""
    call = product(name, 0.0, args)
    if name not in POINTWISE or call.shapes is None:
        return None
    return pointwise_bytes(name, call.shapes, call.dtypes, call.strides)


def _tensors(recorded: object) -> tuple[TensorShape | None, ...] | None:
    return tuple(map(shape, recorded)) if isinstance(recorded, list) else None


def _texts(recorded: object) -> tuple[str, ...]:
    return tuple(text if isinstance(text, str) else "" for text in recorded) if isinstance(recorded, list) else ()


def _shapes(inputs: object) -> Iterator[str]:
    """Yield the shapes of tensors; an input can be a list of tensors."""
    for entry in inputs if isinstance(inputs, list) else ():
        tensors = [entry] if shape(entry) else entry if isinstance(entry, list) else []
        yield from (f"[{', '.join(map(str, tensor))}]" for tensor in tensors if shape(tensor))


def direction(name: str) -> str:
    """Return the direction of a copy: "Memcpy HtoD (Pageable -> Device)" → "host to device"; arrays are memory too."""
    match = _DIRECTION.match(name)
    ends = (match[1] + match[2]).replace("A", "D") if match else ""
    return _DIRECTIONS.get(ends, "copy")


def memory(name: str) -> str | None:
    """Return the memory at the host's end of a copy: "Memcpy HtoD (Pageable -> Device)" → "pageable"."""
    match = _MEMORY.search(name)
    return _MEMORIES[match[1]] if match else None


def collective(args: Mapping[str, Any]) -> Collective | None:
    """Return what a communication kernel does, with the bytes that one rank puts in."""
    recorded = args.get(COLLECTIVE_NAME)
    if not isinstance(recorded, str):
        return None
    name, ranks = _collective_name(recorded), count(args.get("Group size"))
    put_in, got = count(args.get("In msg nelems")), count(args.get("Out msg nelems"))
    elements = put_in or (_put_in(name, got, ranks) if got else put_in)
    size = element_bytes(str(args.get("dtype")))
    moved = elements * size if elements is not None and size is not None else None
    return Collective(name, moved, ranks, group=_group(args), number=count(args.get("Seq")))


def _group(args: Mapping[str, Any]) -> str | None:
    """Return the identity of a group of ranks: subgroups of one name can have other members."""
    name, members = args.get("Process Group Name"), args.get("Process Group Ranks")
    return f"{name} {members}" if isinstance(name, str) and isinstance(members, str | list) else None


def _put_in(name: str, got: int, ranks: int | None) -> int | None:
    """Return how many elements a rank puts in that gets so many: it gets those of all ranks, or its part of a sum."""
    if name == "all_gather":
        return got // ranks if ranks else None
    if name == "reduce_scatter":
        return got * ranks if ranks else None
    return got


def _collective_name(name: str) -> str:
    """Return the common name of what c10d calls "allreduce", "_allgather_base", "reduce_scatter_tensor_coalesced"."""
    bare = name.lower().replace("_", "")
    return next((common for common in _COLLECTIVES if common.replace("_", "") in bare), name)
