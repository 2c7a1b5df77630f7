"""The packages that have the headers of NVIDIA's libraries and of PyTorch."""

from __future__ import annotations

_PACKAGES = {
    "cublas": "nvidia-cublas", "nvblas": "nvidia-cublas", "curand": "nvidia-curand", "cufft": "nvidia-cufft",
    "cusparse": "nvidia-cusparse", "cusparselt": "nvidia-cusparselt-cu13", "cusolver": "nvidia-cusolver",
    "npp": "nvidia-npp", "nvjpeg": "nvidia-nvjpeg", "nvml": "nvidia-nvml-dev", "cupti": "nvidia-cuda-cupti",
    "cufile": "nvidia-cufile", "nvjitlink": "nvidia-nvjitlink", "cudss": "nvidia-cudss-cu13",
    "cudnn": "nvidia-cudnn-cu13", "nccl": "nvidia-nccl-cu13", "nvshmem": "nvidia-nvshmem-cu13",
    "cutensor": "cutensor-cu13", "cutlass/": "nvidia-cutlass", "cute/": "nvidia-cutlass",
    "cuda_profiler_api": "nvidia-cuda-profiler-api", "cudaprofiler": "nvidia-cuda-profiler-api",
    "nvtx3/": "nvidia-nvtx", "cub/": "nvidia-cuda-cccl", "thrust/": "nvidia-cuda-cccl", "cuda/": "nvidia-cuda-cccl",
    "nv/": "nvidia-cuda-cccl", "nvrtc": "nvidia-cuda-nvrtc", "cuda_": "nvidia-cuda-runtime",
    "cooperative_groups": "nvidia-cuda-runtime",
}  # fmt: skip
"""By how their names begin, in small letters: what the wheels for CUDA 13 have on PyPI."""
_TORCH = ("torch/", "aten/", "c10/", "pybind11/", "python.h")
FOLDERS = (
    "nvidia/cudnn/include", "nvidia/nccl/include", "nvidia/nvshmem/include", "cutensor/include",
    "cutlass_library/source/include", "cutlass_library/source/tools/util/include",
)  # fmt: skip
"""Folders of packages with headers that compilers do not look in."""


def header_hint(header: str) -> str | None:
    """Return what to install for a header; None if no known package has it."""
    name = header.lower()
    if name.startswith(_TORCH):
        return "--torch has the headers of the installed PyTorch"
    start = max((start for start in _PACKAGES if name.startswith(start)), key=len, default=None)
    return f"python -m pip install {_PACKAGES[start]}" if start is not None else None
