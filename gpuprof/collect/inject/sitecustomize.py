"""Runs in the program's own Python, before the program: waits for torch, and then has its work marked with NVTX ranges.

gpuprof puts this folder first on PYTHONPATH, so that every Python that the program starts comes by here. Only the
standard library is used, of Python 3.8 or newer, and until torch comes no module that Python itself has not loaded.
What the program sees stays as it was: the folder leaves sys.path, the sitecustomize that this one hides is run, and
where there is none this import fails as it would have failed.
"""

import os
import sys

TYPE_CHECKING = False  # as typing has it, which would be loaded for the program
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be loaded for the program
_WAITING_FOR = "torch"


class _TorchWatcher:
    """Finds torch as the other finders do, and has its loader call us once torch has been loaded."""

    @classmethod
    def find_spec(
        cls, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Return the spec of torch with a loader that also annotates; None for everything else."""
        if name != _WAITING_FOR:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not cls else None
            if spec is not None:
                _annotate_after_load(spec.loader)
                return spec
        return None


def _annotate_after_load(loader: "Any") -> None:
    """Let a loader annotate the module that it loads; its own method is back in place before the module runs.

    Many a program only looks whether there is a torch: such a loader never loads.
    """

    def exec_module(module: "ModuleType") -> None:
        del loader.exec_module
        if _TorchWatcher in sys.meta_path:
            sys.meta_path.remove(_TorchWatcher)
        loader.exec_module(module)
        _annotate()

    try:
        loader.exec_module = exec_module
    except AttributeError as error:  # a folder without code, or a loader that takes no attributes
        _give_up(error)


def _annotate() -> None:
    """Load what marks the work of torch, from beside this file, and start it. Failures are told, never raised."""
    try:
        from importlib import util

        name = "_gpuprof_torch_ranges"
        spec = util.spec_from_file_location(name, os.path.join(_FOLDER, "torch_ranges.py"))  # noqa: PTH118
        assert spec is not None and spec.loader is not None
        ranges = util.module_from_spec(spec)
        sys.modules[name] = ranges  # where torch.compile looks up the globals of a function
        spec.loader.exec_module(ranges)
        ranges.install()
    except Exception as error:
        _give_up(error)


def _give_up(error: Exception) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"gpuprof: kernels get no module names: {type(error).__name__}: {error}\n")


def _leave_sys_path() -> None:
    for place, entry in enumerate(sys.path):
        if entry and os.path.abspath(entry) == _FOLDER:  # noqa: PTH100
            del sys.path[place]
            return


def _import_hidden() -> None:
    """Import the sitecustomize that this one hides. Raises ImportError if there is none, as site expects."""
    ours = sys.modules.pop(__name__, None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        if ours is not None:
            sys.modules.setdefault(__name__, ours)  # the import system takes it out again
        raise


_leave_sys_path()
if os.environ.get("GPUPROF_ANNOTATE") == "1" and _WAITING_FOR not in sys.modules:
    sys.meta_path.insert(0, _TorchWatcher)
_import_hidden()
