"""The Python packages that gpuprof needs, as pyproject.toml lists them, and the error if one is missing.

It imports Python's own modules only, so that it works whichever package is missing.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

from gpuprof.errors import EnvironmentProblem

_PIP_NAMES = {
    "click": "click",
    "jinja2": "jinja2",
    "matplotlib": "matplotlib",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "pynvml": "nvidia-ml-py",
    "pandas": "pandas",
    "yaml": "pyyaml",
    "rich": "rich",
    **({"nvtx": "nvtx"} if sys.platform != "darwin" else {}),
    **({"tomli": "tomli"} if sys.version_info < (3, 11) else {}),
    **({"zstandard": "zstandard"} if sys.version_info < (3, 14) else {}),
}
"""What pip calls a package, by the name by which it is imported."""


def needed_packages() -> tuple[str, ...]:
    """Return the names by which pip knows the packages that are needed here."""
    return tuple(_PIP_NAMES.values())


def missing_packages() -> tuple[str, ...]:
    """Return the needed packages that are not installed, without importing any."""
    return tuple(name for module, name in _PIP_NAMES.items() if not _is_there(module))


def refuse_missing_packages() -> None:
    """Raise EnvironmentProblem if a package is missing."""
    missing = missing_packages()
    if missing:
        raise _problem(missing)


def problem_of(error: ModuleNotFoundError) -> EnvironmentProblem | None:
    """Return the error for a failed import, with all missing packages; None if the module is gpuprof's or Python's."""
    module = (error.name or "").partition(".")[0]
    if module in {"", "gpuprof"} or module in sys.stdlib_module_names:
        return None
    return _problem(dict.fromkeys((_PIP_NAMES.get(module, module), *missing_packages())))


def install_command(packages: Iterable[str]) -> str:
    """Return what installs packages."""
    return f"python3 -m pip install {' '.join(packages)}"


def _problem(missing: Iterable[str]) -> EnvironmentProblem:
    names = list(missing)
    if len(names) == 1:
        message = f"the Python package {names[0]} is missing (gpuprof needs it)"
    else:
        message = f"the Python packages {', '.join(names)} are missing (gpuprof needs them)"
    return EnvironmentProblem(message, install_command(names))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it was imported without saying from where
        return True
    except ImportError:
        return False
