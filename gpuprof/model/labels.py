"""Short, unique and harmless labels for kernels, made from their demangled names.

A name is normalised (casts, anonymous namespaces and control characters go), split into tokens and parsed
into a tree, all in linear time. The first family that knows the kernel words its label; any other kernel is
called by its function name and short template arguments. Labels that collide get what tells them apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

TARGET_WIDTH = 48
MAX_WIDTH = 60

_ELLIPSIS = "…"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNNAMED = "(unnamed)"
_PARSED_CHARACTERS = 50_000
_MAX_ARGUMENTS = TARGET_WIDTH // 3  # each takes a character and `, `
_MAX_DETAIL_WIDTH = 24
_MAX_DETAILS = 3
_MAX_DETAILS_WIDTH = 32


def label_kernels(demangled: Sequence[str], hints: Sequence[tuple[str, ...]] | None = None) -> tuple[str, ...]:
    """Return one label for each name, in order: equal names share a label, different names never do.

    `hints` gives for each name what else is known of that launch, such as its NVTX ranges, outermost first. A
    hint that all launches of a name share is shown where the name alone says nothing, as for `Kernel`.
    """
    shared_hints = _shared_hints(demangled, hints)
    drafts = {text: _draft(_parse_name(text), shared) for text, shared in shared_hints.items()}
    unique = _numbered(_told_apart(drafts))
    return tuple(unique[text] for text in demangled)


def short_name(demangled: str) -> str:
    """Return the function's own name, without return type, namespace, template arguments and parameters."""
    return _parse_name(demangled).base


# What a name is made of


@dataclass(slots=True, eq=False)
class _Type:
    """A type, value or function in a name: its components in order of scope, `at` `native` `kernel<…>(…)`."""

    parts: list[_Part] = field(default_factory=list)
    pointer: bool = False


@dataclass(slots=True, eq=False)
class _Part:
    """One component of a qualified name, with its template arguments and parameters where it has them."""

    name: str
    args: list[_Type] | None = None
    params: list[_Type] | None = None

    @property
    def is_lambda(self) -> bool:
        """Tell whether this is a lambda, which the parser names `lambda#3`."""
        return self.name.startswith("lambda#")

    @property
    def has_brackets(self) -> bool:
        """Tell whether template arguments or parameters follow: a function or a class, not a namespace."""
        return self.args is not None or self.params is not None


@dataclass(frozen=True, slots=True, eq=False)
class _Name:
    """A parsed kernel name. Its tokens begin at the function, what stood before it comes last.

    `plain` is a text that is no C++ function and is shown as it is.
    """

    text: str
    tokens: tuple[str, ...]
    function: _Part
    scopes: tuple[_Part, ...]
    plain: bool

    @property
    def base(self) -> str:
        """The function's own name."""
        return self.text if self.plain else self.function.name

    @property
    def args(self) -> list[_Type]:
        """The function's template arguments."""
        return self.function.args or []

    @property
    def library(self) -> str:
        """The outermost namespace, or nothing."""
        return self.scopes[0].name if self.scopes else ""


# From text to tokens to a tree

_BOOL_CASTS = (("(bool)0", "false"), ("(bool)1", "true"))
_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::", "{anonymous}::")
_CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
_CPP_SIGN = re.compile(r"\w<|::|\w\(|operator")
_INTEGER_SUFFIX = re.compile(r"(?<![\w.])(\d+)[uU]?[lL]{0,2}\b")
_TOKEN = re.compile(
    r"operator\s*(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?)"
    r"|(?:unsigned|signed)\s+(?:char|short|int|long long|long)\b"
    r"|long long\b|'lambda\d*'|#\d+|::|->|-?\d\w*"
    rf"|[\w$@.~{_REPLACEMENT}]+|\S"
)
_SPECIFIERS = frozenset({"const", "volatile", "struct", "class", "enum", "typename", "noexcept", "static"})
_OPENERS = {"<": ">", "(": ")", "[": "]", "{": "}"}
_CLOSERS = {closer: opener for opener, closer in _OPENERS.items()}
_WORD_START = re.compile(rf"[\w$@.~'\-{_REPLACEMENT}]")


@lru_cache(maxsize=512)
def _parse_name(demangled: str) -> _Name:
    """Return the parsed name. What follows in a very long one is left to the numbering of equal labels."""
    text = _normalised(demangled[:_PARSED_CHARACTERS])
    if not text:
        return _plain_name(_UNNAMED)
    if _is_plain(text):
        return _plain_name(text)
    tokens = tuple(_TOKEN.findall(text))
    parts = _parse(tokens).parts
    if not parts:
        return _plain_name(text)
    start = tokens.index(parts[-1].name) if parts[-1].name in tokens else 0
    return _Name(text, tokens[start:] + tokens[:start], parts[-1], tuple(parts[:-1]), plain=False)


def _normalised(text: str) -> str:
    """Return the text without what no label needs: casts of constants, anonymous namespaces, odd spaces."""
    text = " ".join(_harmless(text).split())
    for written, meant in _BOOL_CASTS:
        text = text.replace(written, meant)
    for anonymous in _ANONYMOUS:
        text = text.replace(anonymous, "")
    text = _INTEGER_SUFFIX.sub(r"\1", _CAST.sub("", text))
    return text.replace("operator ()", "operator()")


def _harmless(text: str) -> str:
    """Replace every character that steers a terminal: controls, escapes, bidi overrides, surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_harmless_character(character) for character in text)


def _harmless_character(character: str) -> str:
    if character.isspace():
        return " "
    return _REPLACEMENT if unicodedata.category(character) in {"Cc", "Cf", "Cs"} else character


def _is_plain(text: str) -> bool:
    """Tell whether a text is no C++ function: a C name, a range's title, `Memcpy HtoD (Pageable -> Device)`.

    Demanglers print a return type only before templates, and no space before an opening bracket.
    """
    if not _CPP_SIGN.search(text):
        return True
    return "<" not in text and "::" not in text and " " in text.partition("(")[0]


def _plain_name(text: str) -> _Name:
    return _Name(_mangled_base(text), tuple(_TOKEN.findall(text)), _Part(text), (), plain=True)


def _mangled_base(text: str) -> str:
    """Return the innermost identifier of a mangled name such as `_ZN3foo6kernelILi4EEvPf`, else the text."""
    identifier = ""
    position = 3 if text.startswith("_ZN") else 2
    while text.startswith("_Z") and (digits := re.compile(r"\d{1,4}").match(text, position)):
        position = digits.end() + int(digits.group())
        identifier = text[digits.end() : position] or identifier
    return identifier or text


@dataclass(slots=True, eq=False)
class _Frame:
    """An open bracket while parsing: the part it belongs to, and the types read in it so far."""

    opener: str
    owner: _Part | None = None
    types: list[_Type] = field(default_factory=lambda: [_Type()])
    after_scope: bool = False
    index: str = ""

    def last_part(self) -> _Part | None:
        """Return the component that a bracket would belong to now."""
        parts = self.types[-1].parts
        return parts[-1] if parts and not self.after_scope else None

    def add(self, part: _Part) -> None:
        """Append a component after `::`; otherwise what came before it was a return type, and goes."""
        current = self.types[-1]
        if self.after_scope or not current.parts or part.name == "lambda":
            current.parts.append(part)
        else:
            current.parts = [part]
        self.after_scope = False


def _parse(tokens: Iterable[str]) -> _Type:
    """Return the tree of the tokens, in one pass without recursion; unbalanced brackets close at the end."""
    stack = [_Frame("")]
    open_counts = dict.fromkeys(_OPENERS, 0)
    for token in tokens:
        if token in _OPENERS:
            _open(stack, token, open_counts)
        elif token in _CLOSERS:
            _close_through(stack, _CLOSERS[token], open_counts)
        else:
            _take(stack[-1], token)
    while len(stack) > 1:
        _close(stack, open_counts)
    return stack[0].types[0]


def _open(stack: list[_Frame], opener: str, open_counts: dict[str, int]) -> None:
    last = stack[-1].last_part()
    if opener == "<" and last is not None and _is_number(last.name):
        return  # a comparison
    owner = last
    if last is not None:
        taken = last.args if opener == "<" else last.params
        owner = last if taken is None and opener in "<(" else None
    stack.append(_Frame(opener, owner))
    open_counts[opener] += 1


def _close_through(stack: list[_Frame], opener: str, open_counts: dict[str, int]) -> None:
    """Close the innermost such bracket and all in it; `>` closes nothing from inside another bracket."""
    if open_counts[opener] == 0 or (opener == "<" and stack[-1].opener != "<"):
        return
    while stack[-1].opener != opener:
        _close(stack, open_counts)
    _close(stack, open_counts)


def _close(stack: list[_Frame], open_counts: dict[str, int]) -> None:
    frame = stack.pop()
    parent = stack[-1]
    open_counts[frame.opener] -= 1
    if frame.opener in "[{":
        _close_lambda(frame, parent)
    elif frame.owner is None:
        _close_group(frame, parent)
    elif frame.opener == "<":
        frame.owner.args = _non_empty(frame.types)
    else:
        frame.owner.params = _non_empty(frame.types)


def _close_lambda(frame: _Frame, parent: _Frame) -> None:
    """Add `{lambda(int)#1}` or `[lambda(int) (instance 1)]`; other such brackets are ABI tags and bounds."""
    inner = frame.last_part()
    if inner is not None and inner.name == "lambda":
        parent.add(_Part(f"lambda#{frame.index}", params=inner.params))
    elif inner is not None and frame.opener == "{":
        parent.add(_Part(f"unnamed#{frame.index}"))


def _close_group(frame: _Frame, parent: _Frame) -> None:
    """Keep the content of `(&function)` as the type itself, and the number of `(instance 3)`."""
    inner = frame.types[0].parts
    if inner and parent.opener == "[":
        parent.index = inner[-1].name
    if inner and not parent.types[-1].parts:
        parent.types[-1].parts = inner


def _non_empty(types: list[_Type]) -> list[_Type]:
    return [a_type for a_type in types if a_type.parts]


def _take(frame: _Frame, symbol: str) -> None:
    """Take a token that is no bracket."""
    if symbol[0].isalnum() or symbol[0] == "_":
        if symbol not in _SPECIFIERS:
            frame.add(_Part(symbol))
    elif symbol == "::":
        frame.after_scope = True
    elif symbol == ",":
        frame.types.append(_Type())
        frame.after_scope = False
    elif symbol == "*":
        frame.types[-1].pointer = bool(frame.types[-1].parts)
    elif symbol[0] == "#":
        frame.index = symbol[1:]
    elif symbol[0] == "'":
        frame.add(_Part("lambda#" + symbol.strip("'").removeprefix("lambda")))
    elif _WORD_START.match(symbol):
        frame.add(_Part(symbol))


def _walk(types: Iterable[_Type]) -> Iterator[_Part]:
    """Yield all components in reading order, template arguments inside; not the parameters of functions."""
    waiting = list(types)[::-1]
    while waiting:
        for part in waiting.pop().parts:
            yield part
            if part.args:
                waiting.extend(part.args[::-1])


# Words for types and arguments

_DTYPES = {
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
    **{
        "tfloat32_t": "tf32",
        "float4": "float4",
        "half2": "half2",
        "__half2": "half2",
        "__nv_bfloat162": "bf162",
    },
    **{name: name for name in ("float", "double", "int", "long", "short", "char", "bool", "float2")},
}


def _is_number(word: str) -> bool:
    return word.lstrip("-")[:1].isdigit()


def _is_value(word: str) -> bool:
    return _is_number(word) or word in {"true", "false"}


def _is_constant(a_type: _Type) -> bool:
    return _is_value(a_type.parts[-1].name)


def _dtype_of(part: _Part) -> str:
    """Return the short name of a data type, also `4B` for PyTorch's opaque 4 bytes, or nothing."""
    if part.name == "OpaqueType" and part.args:
        return f"{part.args[0].parts[-1].name}B"
    if part.name == "integer_subbyte" and part.args:
        signed = len(part.args) > 1 and part.args[1].parts[-1].name in {"true", "1"}
        return f"{'s' if signed else 'u'}{part.args[0].parts[-1].name}"
    return _DTYPES.get(part.name, "")


def _first_dtype(types: Iterable[_Type]) -> str:
    return next((dtype for part in _walk(types) if (dtype := _dtype_of(part))), "")


def _first_value_dtype(types: Iterable[_Type]) -> str:
    """Return the first data type that is no index type."""
    dtypes = (_dtype_of(part) for part in _walk(types))
    return next((dtype for dtype in dtypes if dtype and dtype not in {"int", "long", "bool"}), "")


def _short(a_type: _Type, depth: int = 2) -> str:
    """Return a type or value in few words: without namespaces, and without arguments below a depth."""
    if callable_name := _callable_name(a_type):
        return callable_name
    part = a_type.parts[-1]
    star = "*" if a_type.pointer else ""
    if dtype := _dtype_of(part):
        return dtype + star
    inner = ", ".join(_short(arg, depth - 1) for arg in part.args) if part.args and depth > 0 else ""
    return f"{part.name}<{inner}>{star}" if 0 < len(inner) <= 16 else part.name + star


def _callable_name(a_type: _Type) -> str:
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


def _lambda_owner(a_type: _Type) -> _Part:
    """Return the component before the first lambda, or the lambda where nothing is before it."""
    first = next(index for index, part in enumerate(a_type.parts) if part.is_lambda)
    return a_type.parts[max(first - 1, 0)]


def _extended_lambda_name(wrapper: _Type) -> str:
    """Return the name of what nvcc writes as `__nv_dl_wrapper_t<__nv_dl_tag<int (*)(), &main, 1u>, …>`."""
    tag = next((part.args for part in _walk([wrapper]) if part.name == "__nv_dl_tag" and part.args), [])
    return f"{tag[1].parts[-1].name}::lambda#{tag[2].parts[-1].name}" if len(tag) > 2 else "lambda"


def _head(a_type: _Type) -> _Part:
    """Return the first component that is more than a namespace: a lambda's function, or the class."""
    return next((part for part in a_type.parts if part.has_brackets or part.is_lambda), a_type.parts[-1])


# Families: each words the label of a name that it knows, and gives nothing for any other


def _draft(name: _Name, hints: tuple[str, ...]) -> str:
    """Return a name's label before uniqueness, with a hint where it says nothing."""
    return _fitted(_with_hint(_worded(name), name, hints), MAX_WIDTH)


def _worded(name: _Name) -> str:
    """Return the words of the first family that knows the name."""
    if name.plain:
        return _nccl(name) or _identifier(name.text)
    return next((label for family in _FAMILIES if (label := family(name))), "") or _generic(name)


def _nccl(name: _Name) -> str:
    found = re.match(r"ncclDev(?:Kernel|Func)_|ncclKernel_", name.base)
    if not found:
        return ""
    return _words("nccl", re.sub(r"_(?!LL|SIMPLE)", " ", name.base[found.end() :]))


def _identifier(text: str) -> str:
    """Return a name without brackets and without its constant words: Triton's digits, cuDNN's and XMMA's."""
    text = re.sub(r"_0[dce]{0,2}(?:\d+[dce]{0,2})+\Z", "", text) or text
    text = re.sub(r"\Acudnn_(?:infer|train)_(?=.)", "", text)
    if len(text) > TARGET_WIDTH and "_xmma_" in text:
        text = re.sub(r"_execute_(?:segment_k_off_)?kernel.*\Z", "", text)
        text = re.sub(r"_(?:warpsize|warpgroupsize)\d+x\d+x\d+|(?<=_)tilesize", "", text)
    return text


def _torch_elementwise(name: _Name) -> str:
    """Word PyTorch's carriers of an operation: elementwise, reduction, random distribution."""
    if name.base not in _TORCH_CARRIERS:
        return ""
    functor = next((arg for arg in name.args if not _is_constant(arg) and not _dtype_of(arg.parts[-1])), None)
    if functor is None:
        return ""
    operation, dtype = _torch_operation(functor)
    casts = any(arg.parts[-1].name == "LoadWithCast" for arg in name.args)
    return _words(_TORCH_CARRIERS[name.base], operation, dtype, "cast" if casts else "")


_TORCH_CARRIERS = {
    "vectorized_elementwise_kernel": "vectorized_elementwise",
    "vectorized_templated_elementwise_kernel": "vectorized_templated",
    "unrolled_elementwise_kernel": "unrolled_elementwise",
    "unrolled_elementwise_kernel_for_multi_outputs": "unrolled_multi_output",
    "unrolled_templated_elementwise_kernel": "unrolled_templated",
    "elementwise_kernel": "elementwise",
    "elementwise_kernel_with_index": "elementwise_with_index",
    "index_elementwise_kernel": "index_elementwise",
    "_scatter_gather_elementwise_kernel": "",
    "distribution_elementwise_grid_stride_kernel": "distribution_elementwise",
    "reduce_kernel": "reduce",
}
_TORCH_WRAPPERS = {
    **dict.fromkeys(("gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_kernel"), ("", "")),
    **dict.fromkeys(("gpu_index_kernel", "gpu_kernel_with_index"), ("", "")),
    **dict.fromkeys(("ReduceOp", "func_wrapper_t", "BinaryFunctor"), ("", "")),
    "BUnaryFunctor": ("", " scalar"),
    "AUnaryFunctor": ("scalar ", ""),
}


def _torch_operation(functor: _Type) -> tuple[str, str]:
    """Return what a functor computes and on which type, through the wrappers that carry it.

    The type is the parameter of the innermost lambda (`{lambda(float)#1}`), or the functor's first data type.
    """
    before = after = ""
    for _ in range(4):
        head = _head(functor)
        inner = [arg for arg in head.args or [] if not _is_constant(arg) and not _dtype_of(arg.parts[-1])]
        if head.name not in _TORCH_WRAPPERS or not inner:
            break
        functor = inner[0]
        before, after = before + _TORCH_WRAPPERS[head.name][0], _TORCH_WRAPPERS[head.name][1] + after
    opaque = next((part for part in _walk([functor]) if part.name == "OpaqueType"), None)
    innermost = [param for param in functor.parts[-1].params or [] if not param.pointer]
    dtype = (_dtype_of(opaque) if opaque else "") or _first_dtype(innermost) or _first_dtype([functor])
    return before + _operation_word(_head(functor).name) + after, dtype


def _operation_word(name: str) -> str:
    """Return `mul` for `MulFunctor`, `direct_copy` for `direct_copy_kernel_cuda`, `mean` for `MeanOps`."""
    word = re.sub(r"\ACUDAFunctorOnSelf_(.+)", r"\1 scalar", name)
    word = re.sub(r"\A(?:CUDAFunctor_|launch_|_cuda_)(?=.)", "", word)
    word = re.sub(r"(?<=.)(?:Functor|Ops|_functor)\Z", "", word)
    word = re.sub(r"(?<=.)(?:_and_transform|(?:_internal|_kernel|_impl|_cuda){1,4})\Z", "", word)
    return word.lower() if re.fullmatch(r"[A-Z][a-z]+", word) else word


def _torch_multi_tensor(name: _Name) -> str:
    if not name.base.startswith("multi_tensor_apply"):
        return ""
    functors = [_head(arg).name for arg in name.args if not _is_constant(arg) and not _dtype_of(arg.parts[-1])]
    words = [_operation_word(functor) for functor in functors if "Metadata" not in functor][:2]
    return _words("multi_tensor_apply", *words, _first_dtype(name.args)) if words else ""


def _flash_attention(name: _Name) -> str:
    if not name.base.startswith("flash_"):
        return ""
    traits = next((part for part in _walk(name.args) if "_kernel_traits" in part.name), None)
    if traits is None or len(traits.args or []) < 3:
        return ""
    head_dim, block_m, block_n = (_short(arg) for arg in (traits.args or [])[:3])
    causal_position = 1 if "splitkv" in name.base else 2
    flags = [_short(arg) for arg in name.args]
    causal = "causal" if flags[causal_position : causal_position + 1] == ["true"] else ""
    head = re.sub(r"_kernel\Z|_loop_seqk_parallel_kernel\Z", "", name.base)
    return _words(head, f"hdim{head_dim}", f"{block_m}x{block_n}", _first_dtype(name.args), causal)


def _cutlass(name: _Name) -> str:
    """Word `cutlass::Kernel<…>` and `device_kernel<…>` by the kernel in it, its tile, types and schedule."""
    if name.base not in {"Kernel", "Kernel2", "device_kernel"} or not name.args:
        return ""
    inner = name.args[0]
    while inner.parts[-1].name.startswith("enable_") and inner.parts[-1].args:
        inner = inner.parts[-1].args[0]
    part = inner.parts[-1]
    if not any(component.args for component in inner.parts):
        return _identifier(part.name)
    schedule = _cutlass_schedule([inner])
    return _words("cutlass", part.name, _cutlass_tile([inner]), _first_value_dtype([inner]), schedule)


def _cutlass_tile(types: list[_Type]) -> str:
    """Return the thread block's tile: the first `GemmShape`, or CuTe triple too large for a cluster."""
    for part in _walk(types):
        if part.name in {"GemmShape", "tuple"} and part.args and len(part.args) == 3:
            sizes = [_constant_size(arg) for arg in part.args]
            if part.name == "GemmShape" or min(sizes) >= 8:
                return "x".join(str(size) for size in sizes)
    return ""


def _constant_size(a_type: _Type) -> int:
    """Return the number of `128` or `cute::C<128>`, or 0."""
    part = a_type.parts[-1]
    word = part.args[0].parts[-1].name if part.name == "C" and part.args else part.name
    return int(word) if word.isdecimal() and len(word) < 10 else 0


def _cutlass_schedule(types: list[_Type]) -> str:
    for part in _walk(types):
        if found := re.search(r"Pingpong|Cooperative", part.name):
            return found.group().lower()
    return ""


def _cublas(name: _Name) -> str:
    """Word cuBLAS's GEMV, whose function is called `kernel`, and its split-K reduction."""
    if name.base == "splitKreduce_kernel":
        return _words("cublas splitKreduce", _first_value_dtype(name.args))
    scope = name.scopes[-1].name if name.scopes else ""
    if name.base != "kernel" and not name.base.startswith("gemv"):
        return ""
    if not scope.startswith("gemv") and all(not part.name.startswith("cublasGemv") for part in _walk(name.args)):
        return ""
    if name.base != "kernel":
        return f"cublas {_generic(name)}"
    return _words("cublas", scope if scope.startswith("gemv") else "gemv", _first_value_dtype(name.args))


def _kokkos(name: _Name) -> str:
    if name.library != "Kokkos" or not name.args or not name.args[0].parts[-1].args:
        return ""
    pattern = name.args[0].parts[-1]
    functor = (pattern.args or [])[0]
    if functor.parts[-1].name == "CombinedFunctorReducer" and functor.parts[-1].args:
        functor = functor.parts[-1].args[0]
    return _words("Kokkos", pattern.name, _short(functor))


def _raja(name: _Name) -> str:
    if name.library != "RAJA":
        return ""
    body = next((found for arg in name.args if (found := _callable_name(arg))), "")
    return _words("RAJA", name.base.removesuffix("_kernel"), body)


def _cub_and_thrust(name: _Name) -> str:
    """Word CUB's device kernels, and thrust's agents by algorithm (`__transform::`), functor and type."""
    libraries = [part.name for part in name.scopes if part.name in {"cub", "thrust"}]
    if not libraries:
        return ""
    carriers = {"static_kernel", "_kernel_agent"}
    scope = name.scopes[-1].name
    what = scope if name.base in carriers else re.sub(r"_?[Kk]ernel\Z", "", name.base)
    if name.base == "_kernel_agent" and name.args:
        what = re.sub(r"Agent\Z", "", name.args[0].parts[-1].name)
    operation = [word for word in _thrust_operation(name.args) if word.lower() != what.lower()]
    return _words(libraries[0], what, *operation, _first_dtype(name.args))


def _thrust_operation(types: list[_Type]) -> list[str]:
    """Return the algorithm and the caller's functor inside thrust's own, where they are written."""
    for part, following in _scoped_parts(types):
        if part.name.startswith("__") and part.args is None and not part.name.startswith("__nv"):
            functors = [arg for arg in following.args or [] if not _is_library_type(arg)]
            user = [_short(functor, depth=0) for functor in functors[:1]]
            return [] if part.name == "__parallel_for" else [part.name.strip("_"), *user]
    return []


def _scoped_parts(types: list[_Type]) -> Iterator[tuple[_Part, _Part]]:
    """Yield each namespace of thrust's algorithms with the component after it, the agent's own excepted."""
    waiting = list(types)[::-1]
    while waiting:
        parts = waiting.pop().parts
        yield from ((a, b) for a, b in pairwise(parts) if a.name != "__parallel_for")
        waiting.extend(arg for part in parts[::-1] for arg in (part.args or [])[::-1])


def _is_library_type(a_type: _Type) -> bool:
    scope = a_type.parts[0].name if len(a_type.parts) > 1 else ""
    return scope in {"thrust", "cub", "cuda"} or bool(_dtype_of(a_type.parts[-1])) or _is_constant(a_type)


_FAMILIES: tuple[Callable[[_Name], str], ...] = (
    _nccl,
    _torch_elementwise,
    _torch_multi_tensor,
    _flash_attention,
    _cutlass,
    _cublas,
    _kokkos,
    _raja,
    _cub_and_thrust,
)
_LIBRARIES = {
    **dict.fromkeys(("cudnn", "cask_cudnn", "cask_cudnn_infer", "cask_cudnn_train"), "cudnn"),
    **dict.fromkeys(("cublas", "cublasLt"), "cublas"),
    **{name: name for name in ("cusparse", "cusolver", "cufft", "cutlass", "raft", "cudf", "faiss", "amrex")},
    **{name: name for name in ("vllm", "flashinfer", "tensorrt_llm", "deep_gemm", "xformers")},
}


def _generic(name: _Name) -> str:
    """Return the function's name with its template arguments, as many as the target width takes."""
    head = _identifier(_function_name(name))
    library = _LIBRARIES.get(name.library, "")
    prefix = f"{library} {head}" if library and not head.startswith(library) else head
    if not name.args:
        return prefix
    if len(name.args) > _MAX_ARGUMENTS:
        return _leading_arguments(prefix, [_short(arg, depth=0) for arg in name.args[:_MAX_ARGUMENTS]])
    arguments = [_short(arg) for arg in name.args]
    brief = _runs_merged([_short(arg, depth=0) for arg in name.args])
    for spelled in (arguments, _runs_merged(arguments), brief):
        if len(full := f"{prefix}<{', '.join(spelled)}>") <= TARGET_WIDTH:
            return full
    return _leading_arguments(prefix, brief)


def _function_name(name: _Name) -> str:
    """Return the function's name, with its class or namespace where it says nothing by itself."""
    function = name.function.name
    if function in _SAYS_NOTHING or function.startswith("operator") or name.function.is_lambda:
        owners = [part.name for part in name.scopes if not part.is_lambda and part.name not in _INNER_SCOPES]
        return "::".join([*owners[-1:], function])
    return function


def _runs_merged(arguments: list[str]) -> list[str]:
    """Write `float, float, float` as `float×3`; values stay, as they are read by position."""
    merged: list[tuple[str, int]] = []
    for argument in arguments:
        if merged and merged[-1][0] == argument and not _is_value(argument):
            merged[-1] = (argument, merged[-1][1] + 1)
        else:
            merged.append((argument, 1))
    return [f"{argument}×{count}" if count > 1 else argument for argument, count in merged]


def _leading_arguments(head: str, arguments: list[str]) -> str:
    """Return `head<first, …>` with the arguments that the target width takes."""
    shown: list[str] = []
    for argument in arguments:
        if len(f"{head}<{', '.join([*shown, argument, _ELLIPSIS])}>") > TARGET_WIDTH:
            break
        shown.append(argument)
    return f"{head}<{', '.join([*shown, _ELLIPSIS])}>" if shown else head


def _words(*words: str) -> str:
    return " ".join(" ".join(words).split())


# Hints

_SAYS_NOTHING = frozenset(
    {"kernel", "Kernel", "Kernel2", "globalKernel", "device_kernel", "main_kernel", "run", *_TORCH_CARRIERS}
)
_INNER_SCOPES = frozenset({"impl", "detail", "internal", "operator()"})


def _shared_hints(demangled: Sequence[str], hints: Sequence[tuple[str, ...]] | None) -> dict[str, tuple[str, ...]]:
    """Return for each different name, in order, the hints that all its launches share."""
    shared: dict[str, tuple[str, ...]] = {}
    for text, own in zip(demangled, hints if hints is not None else [()] * len(demangled), strict=True):
        shared[text] = tuple(hint for hint in shared.get(text, own) if hint in own)
    return shared


def _with_hint(draft: str, name: _Name, hints: tuple[str, ...]) -> str:
    """Add the innermost hint to a label that is only the name of a carrier."""
    if draft not in _SAYS_NOTHING or name.args or not hints:
        return draft
    return f"{draft} @{_fitted(_harmless(hints[-1]), _MAX_DETAIL_WIDTH)}"


# Uniqueness


def _told_apart(drafts: dict[str, str]) -> dict[str, str]:
    """Return the labels with, where drafts collide, the short full name or the first details that differ."""
    labels: dict[str, str] = {}
    for draft, texts in _grouped(drafts).items():
        labels.update({texts[0]: draft} if len(texts) == 1 else _group_told_apart(draft, texts))
    return {text: labels[text] for text in drafts}


def _grouped(labels: dict[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for text, label in labels.items():
        groups[label].append(text)
    return groups


def _group_told_apart(draft: str, texts: list[str]) -> dict[str, str]:
    """Return labels for the names of one draft: the names themselves where they are short."""
    names = {text: _parse_name(text) for text in texts}
    full = [name.text.removeprefix("void ") for name in names.values()]
    width = MAX_WIDTH if all(name.plain for name in names.values()) else TARGET_WIDTH
    if len(set(full)) == len(full) and max(len(text) for text in full) <= width:
        return dict(zip(texts, full, strict=True))
    return _with_details(draft, names)


def _with_details(draft: str, names: dict[str, _Name]) -> dict[str, str]:
    """Return the draft with, for each name, the first differing detail, then more where still needed."""
    details: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    for _ in range(_MAX_DETAILS):
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for text, shown in details.items():
            groups[shown].append(text)
        for members in groups.values():
            found = _differences([names[text] for text in members])
            if len(set(found)) > 1:
                added = zip(members, found, strict=True)
                details.update((text, (*details[text], detail)) for text, detail in added if detail)
    return {text: _detailed(draft, shown) for text, shown in details.items()}


def _differences(names: list[_Name]) -> list[str]:
    """Return for each name the detail at the first token in which the names differ."""
    position = _first_difference([name.tokens for name in names])
    words = [_detail(name.tokens, position) for name in names]
    if min(len(word) for word in words) <= _MAX_DETAIL_WIDTH:
        return words
    pieces = [tuple(word.split("_")) for word in words]
    at = _first_difference(pieces)
    return [piece[at] if at < len(piece) else "" for piece in pieces]


def _first_difference(sequences: Sequence[tuple[str, ...]]) -> int:
    """Return the length of the common beginning: that of the first and the last in sorted order."""
    first, last = min(sequences), max(sequences)
    pairs = zip(first, last, strict=False)
    return next((position for position, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def _detail(tokens: tuple[str, ...], position: int) -> str:
    """Return a token as a detail: a type by its short name, a number with the small template around it.

    What tells nothing by itself, a bracket, gives way to the next word.
    """
    position = next((i for i in range(position, len(tokens)) if _WORD_START.match(tokens[i])), len(tokens))
    if position == len(tokens):
        return ""
    word = tokens[position]
    if not _is_number(word):
        return _DTYPES.get(word, word)
    start = position
    while start > 0 and (tokens[start - 1] == "," or _is_number(tokens[start - 1])):
        start -= 1
    end = next((i for i in range(position, len(tokens)) if tokens[i] in ">)("), position)
    if start < 3 or tokens[start - 1] != "<" or end - start > 6:
        return word
    if tokens[start - 2].endswith("Shape"):
        return "x".join(tokens[start:end:2])
    return f"{tokens[start - 2]}<{''.join(tokens[start:end]).replace(',', ', ')}>"


def _detailed(draft: str, details: tuple[str, ...]) -> str:
    """Return the draft with details, in its argument list where that was cut, within the hard limit."""
    if not details:
        return draft
    shown = _fitted(", ".join(_fitted(detail, _MAX_DETAIL_WIDTH) for detail in details), _MAX_DETAILS_WIDTH)
    ending = f", {_ELLIPSIS}>"
    joined = f", {_ELLIPSIS}, {shown}>" if draft.endswith(ending) else f" <{shown}>"
    return _fitted(draft.removesuffix(ending), MAX_WIDTH - len(joined)) + joined


def _numbered(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels within the hard limit; of equal ones the second becomes `…#2`, the third `…#3`."""
    fitted = {text: _fitted(label, MAX_WIDTH) for text, label in labels.items()}
    taken = set(fitted.values())
    counts: dict[str, int] = {}
    for text, label in fitted.items():
        number = counts.get(label, 0) + 1
        if number > 1:
            while (candidate := _with_number(label, number)) in taken:
                number += 1
            taken.add(candidate)
            fitted[text] = candidate
        counts[label] = number
    return fitted


def _with_number(label: str, number: int) -> str:
    suffix = f"#{number}"
    return _fitted(label, MAX_WIDTH - len(suffix)) + suffix


_TILE = re.compile(r"(?:MT)?\d{1,4}x\d{1,4}(?:x\d{1,4})?")


def _fitted(label: str, width: int) -> str:
    """Return the label, its middle replaced by an ellipsis where it is too wide; a tile size survives."""
    if len(label) <= width:
        return label
    tail_width = width // 3
    tail = _from_boundary(label[-tail_width:])
    tile = _TILE.search(label)
    if tile and tile.start() <= width - tail_width <= tile.end() + 1:
        return _from_boundary(label[: width - 1][::-1])[::-1] + _ELLIPSIS
    if tile and width - tail_width < tile.start() < len(label) - tail_width:
        tail = _from_boundary(label[tile.start() : tile.start() + tail_width][::-1])[::-1]
    head = _from_boundary(label[: width - len(tail) - 1][::-1])[::-1]
    return head + _ELLIPSIS + tail


def _from_boundary(text: str) -> str:
    """Return the text without the cut word that it begins with, where one ends soon."""
    boundary = re.match(r"[^_ ,]{0,8}[_ ,]+(?=[^_ ,])", text)
    return text[boundary.end() :] if boundary and boundary.end() <= len(text) // 2 else text
