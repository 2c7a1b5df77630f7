"""Values that the user gives to arguments, by ordinal or by name, for the kernels that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuprof.errors import UsageError
from gpuprof.review.kernel import CompiledKernel, InputModule

_MOST_TOLD = 5


def with_arguments(modules: Sequence[InputModule], values: Mapping[str, int]) -> tuple[InputModule, ...]:
    """Return the modules with the values at the kernels that have such arguments.

    Raises UsageError for one that no chosen kernel has, or that does not fit into it.
    """
    if not values:
        return tuple(modules)
    kernels = [kernel for module in modules for kernel in module.kernels]
    for key in values:
        if kernels and not any(_ordinals(kernel, key) for kernel in kernels):
            raise UsageError(f"--arg {key:.80}: no kernel has an argument of that {_what(key)}", _hint(kernels))
    return tuple(
        replace(module, kernels=tuple(_given(kernel, values) for kernel in module.kernels)) for module in modules
    )


def _given(kernel: CompiledKernel, values: Mapping[str, int]) -> CompiledKernel:
    arguments = {ordinal: value for key, value in values.items() for ordinal in _ordinals(kernel, key)}
    for parameter in kernel.kernel.parameters:
        value = arguments.get(parameter.ordinal)
        bits = 8 * parameter.size_bytes
        if value is not None and not -(1 << max(bits - 1, 0)) <= value < 1 << bits:
            raise UsageError(
                f"--arg {parameter.ordinal}={value} does not fit into {parameter.size_bytes} bytes, "
                f"the size of that argument of {kernel.name:.100}"
            )
    return replace(kernel, shape=replace(kernel.shape, arguments=arguments)) if arguments else kernel


def _ordinals(kernel: CompiledKernel, key: str) -> tuple[int, ...]:
    """Return the ordinals that a key means in a kernel."""
    have = {parameter.ordinal for parameter in kernel.kernel.parameters}
    if _is_ordinal(key):
        return (int(key),) if int(key) in have else ()
    return tuple(ordinal for ordinal, name in enumerate(kernel.argument_names) if name == key and ordinal in have)


def _is_ordinal(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 6


def _what(key: str) -> str:
    return "number" if _is_ordinal(key) else "name"


def _hint(kernels: Sequence[CompiledKernel]) -> str:
    """List the arguments that there are; those of kernels without code are not known."""
    told = dict.fromkeys(f"{kernel.name:.60} has {_arguments(kernel)}" for kernel in kernels if kernel.has_code)
    more = f" and {len(told) - _MOST_TOLD} more kernels" if len(told) > _MOST_TOLD else ""
    return "; ".join(list(told)[:_MOST_TOLD]) + more


def _arguments(kernel: CompiledKernel) -> str:
    names = dict(enumerate(kernel.argument_names))
    listed = [
        f"{parameter.ordinal} ({names[parameter.ordinal]:.40})"
        if names.get(parameter.ordinal)
        else f"{parameter.ordinal}"
        for parameter in kernel.kernel.parameters
    ]
    return ", ".join(listed[:20]) + (", …" if len(listed) > 20 else "") if listed else "none"
