"""The packages of Python that gpuprof imports: a call ends before it begins where one is missing. It imports none."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

from gpuprof.errors import EnvironmentProblem

PACKAGES = (
    "click", "jinja2", "matplotlib", "msgspec", "numpy", "nvidia-ml-py", "nvtx", "pandas", "pyyaml", "rich",
    *(("tomli",) if sys.version_info < (3, 11) else ()),
    *(("zstandard",) if sys.version_info < (3, 14) else ()),
)  # fmt: skip
"""As `dependencies` of pyproject.toml has them."""


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that this Python has."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def require_packages() -> None:
    """Raise EnvironmentProblem where a package is missing."""
    missing = [package for package in PACKAGES if package not in versions(PACKAGES)]
    if missing:
        names = " ".join(missing)
        raise EnvironmentProblem(
            f"{sys.executable} lacks {names.replace(' ', ', ')}",
            f"{sys.executable} -m pip install {names}; without a network: benchmarks/gpu/README.md",
        )
