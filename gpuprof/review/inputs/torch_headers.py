"""The flags and headers that PyTorch compiles its extensions with, found without importing torch."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from gpuprof.errors import EnvironmentProblem
from gpuprof.review.inputs.request import Build
from gpuprof.sass.tools.compile import include_options
from gpuprof.sass.tools.programs import cuda_folders

_DEFINES = (
    "__CUDA_NO_HALF_OPERATORS__", "__CUDA_NO_HALF_CONVERSIONS__", "__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "__CUDA_NO_HALF2_OPERATORS__", "TORCH_API_INCLUDE_EXTENSION_H", "TORCH_EXTENSION_NAME=extension",
    "C10_CUDA_NO_CMAKE_CONFIGURE_FILE",
)  # fmt: skip
"""With the flag, those of torch.utils.cpp_extension: COMMON_NVCC_FLAGS, and what `CUDAExtension` adds.

The last one spares a header that a PyTorch for CPUs does not have.
"""


def torch_build() -> Build:
    """Return the flags of an extension. Raises EnvironmentProblem if there is no torch with headers.

    It is that of the active virtual environment, or else that of the Python that runs this.
    """
    active = Path(os.environ.get("VIRTUAL_ENV", ""))
    packages = active.glob("lib/python3*/site-packages") if active.is_absolute() else ()
    for torch in (*(folder / "torch" for folder in packages), *cuda_folders(("torch",), ())):
        if (torch / "include" / "ATen").is_dir():
            headers = torch / "include"
            folders = (headers, headers / "torch/csrc/api/include", Path(sysconfig.get_path("include")))
            defines = (f"-D{macro}" for macro in _DEFINES)
            flags = ("--expt-relaxed-constexpr", *defines, *include_options(*folders))
            return Build(standard=_standard(torch), flags=flags)
    raise EnvironmentProblem(
        "--torch: no torch with headers is installed here",
        "activate the environment that has it, or name its folders: -I …/torch/include",
    )


def _standard(torch: Path) -> str:
    """Return the version of C++ that torch compiles extensions as."""
    try:
        builder = (torch / "utils" / "cpp_extension.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "c++17"
    return "c++20" if "-std=c++20" in builder else "c++17"
