"""The words of labels: short names of data types, template arguments and lambdas."""

from __future__ import annotations

from collections.abc import Iterable

from gpuprof.model.name_tree import Part, Type, is_number, walk

DTYPES = {
    **dict.fromkeys(("Half", "half", "__half", "half_t"), "fp16"),
    **dict.fromkeys(("BFloat16", "bfloat16_t", "__nv_bfloat16", "nv_bfloat16", "__hip_bfloat16"), "bf16"),
    **dict.fromkeys(("float_e4m3_t", "Float8_e4m3fn", "__nv_fp8_e4m3"), "e4m3"),
    **dict.fromkeys(("float_e5m2_t", "Float8_e5m2", "__nv_fp8_e5m2"), "e5m2"),
    **dict.fromkeys(("float_e2m1_t", "Float4_e2m1fn_x2", "__nv_fp4_e2m1"), "e2m1"),
    **dict.fromkeys(("signed char", "int8_t"), "s8"),
    **dict.fromkeys(("unsigned char", "uint8_t"), "u8"),
    **dict.fromkeys(("unsigned int", "unsigned", "uint32_t"), "uint"),
    **dict.fromkeys(("unsigned long", "size_t"), "ulong"),
    **{"unsigned long long": "uint64", "long long": "int64", "unsigned short": "ushort"},
    **{"tfloat32_t": "tf32", "__half2": "half2", "__nv_bfloat162": "bf162"},
    **{name: name for name in ("float", "double", "int", "long", "short", "char", "bool", "float2", "float4", "half2")},
}
"""The short names of data types, by the last component of their C++ name."""


def is_value(word: str) -> bool:
    """Tell whether a token is a number or a truth value."""
    return is_number(word) or word in {"true", "false"}


def is_constant(a_type: Type) -> bool:
    """Tell whether a template argument is a value, not a type."""
    return is_value(a_type.parts[-1].name)


def dtype_of(part: Part) -> str:
    """Return the short name of a data type, also `4B` for PyTorch's opaque 4 bytes, or nothing."""
    if part.name == "OpaqueType" and part.args:
        return f"{part.args[0].parts[-1].name}B"
    if part.name == "integer_subbyte" and part.args:
        signed = len(part.args) > 1 and part.args[1].parts[-1].name in {"true", "1"}
        return f"{'s' if signed else 'u'}{part.args[0].parts[-1].name}"
    return DTYPES.get(part.name, "")


def first_dtype(types: Iterable[Type]) -> str:
    """Return the first data type, or nothing."""
    return next((dtype for part in walk(types) if (dtype := dtype_of(part))), "")


def first_value_dtype(types: Iterable[Type]) -> str:
    """Return the first data type that is no index type."""
    dtypes = (dtype_of(part) for part in walk(types))
    return next((dtype for dtype in dtypes if dtype and dtype not in {"int", "long", "bool"}), "")


def short(a_type: Type, depth: int = 2) -> str:
    """Return a type or value in few words: without namespaces, and without arguments below a depth."""
    if called := callable_name(a_type):
        return called
    part = a_type.parts[-1]
    star = "*" if a_type.pointer else ""
    if dtype := dtype_of(part):
        return dtype + star
    inner = ", ".join(short(arg, depth - 1) for arg in part.args) if part.args and depth > 0 else ""
    return f"{part.name}<{inner}>{star}" if 0 < len(inner) <= 16 else part.name + star


def callable_name(a_type: Type) -> str:
    """Return `function::lambda#3.7` for a lambda in a lambda in a function, or nothing without a lambda.

    Where that function was itself given a lambda, as in `launch<main::{lambda()#1}>()::{lambda()#1}`, the
    given one is meant.
    """
    if a_type.parts[-1].name in {"__nv_dl_wrapper_t", "__nv_hdl_wrapper_t"}:
        return _extended_lambda_name(a_type)
    while any(part.is_lambda for part in a_type.parts):
        given = [arg for arg in _lambda_owner(a_type).args or [] if any(part.is_lambda for part in arg.parts)]
        if not given:
            numbers = [part.name.partition("#")[2] for part in a_type.parts if part.is_lambda]
            owner = _lambda_owner(a_type)
            return f"{'' if owner.is_lambda else f'{owner.name}::'}lambda#{'.'.join(numbers)}"
        a_type = given[0]
    return ""


def _lambda_owner(a_type: Type) -> Part:
    """Return the component before the first lambda, or the lambda where nothing is before it."""
    first = next(index for index, part in enumerate(a_type.parts) if part.is_lambda)
    return a_type.parts[max(first - 1, 0)]


def _extended_lambda_name(wrapper: Type) -> str:
    """Return the name of what nvcc writes as `__nv_dl_wrapper_t<__nv_dl_tag<int (*)(), &main, 1u>, …>`."""
    tag = next((part.args for part in walk([wrapper]) if part.name == "__nv_dl_tag" and part.args), [])
    return f"{tag[1].parts[-1].name}::lambda#{tag[2].parts[-1].name}" if len(tag) > 2 else "lambda"


def head_of(a_type: Type) -> Part:
    """Return the first component that is more than a namespace: a lambda's function, or the class."""
    return next((part for part in a_type.parts if part.has_brackets or part.is_lambda), a_type.parts[-1])


def joined(*parts: str) -> str:
    """Return the words that are not empty, a space between them."""
    return " ".join(" ".join(parts).split())
