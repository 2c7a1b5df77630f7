"""Runs in the program's own Python, before the program: waits for torch, and then has its work marked or recorded.

`GPUPROF_ANNOTATE=1` has it marked with NVTX ranges, and by `GPUPROF_MARK` chosen parts of it once more;
`GPUPROF_SURVEY_TO`, a folder, recorded by torch's own profiler, or with `GPUPROF_SURVEY_BY=cupti` by cupti-python.
gpuprof puts this folder first on PYTHONPATH, so that every Python that the program starts comes by here. Only the
standard library is used, of Python 3.8 or newer, and until torch comes no module that Python itself has not loaded.
What the program sees stays as it was, but for a finder that waits for torch and its autotuners: the folder leaves
sys.path, the sitecustomize that this one hides is run, and where there is none this import fails as it would have.
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
_SURVEYED = bool(os.environ.get("GPUPROF_SURVEY_TO"))


class _Watcher:
    """Finds modules that are waited for as the other finders do, and has their loader call us once it has loaded them.

    `waiting` says by name what is called then, with the module.
    """

    waiting: "dict[str, Any]" = {}  # noqa: RUF012 - typing would be loaded for the program

    @classmethod
    def find_spec(
        cls, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Return the spec of a module with a loader that also calls us; None for everything else."""
        if name not in cls.waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not cls else None
            if spec is not None:
                _call_after_load(spec.loader, name)
                return spec
        return None


def _call_after_load(loader: "Any", name: str) -> None:
    """Let a loader call us after a module that it loads; its own method is back in place before the module runs.

    Many a program only looks whether there is a torch: such a loader never loads.
    """

    def exec_module(module: "ModuleType") -> None:
        if module.__spec__ is not None and module.__spec__.name != name:  # a loader of several modules, as of a zip
            type(loader).exec_module(loader, module)
            return
        del loader.exec_module
        call = _Watcher.waiting.pop(name, None)
        if not _Watcher.waiting and _Watcher in sys.meta_path:
            sys.meta_path.remove(_Watcher)
        loader.exec_module(module)
        if call is not None:
            try:
                call(module)
            except Exception as error:
                _give_up(error, "launches of autotuners are not marked")

    try:
        loader.exec_module = exec_module
    except AttributeError as error:  # a folder without code, or a loader that takes no attributes
        _give_up(error)


def _wait_for(name: str, call: "Any") -> None:
    """Have a function called with a module once that is loaded."""
    _Watcher.waiting[name] = call
    if _Watcher not in sys.meta_path:
        sys.meta_path.insert(0, _Watcher)


def _annotate(_: "ModuleType") -> None:
    """Load what marks or records the work of torch, and start it. Failures are told, never raised."""
    try:
        _load("torch_compiling")
        ranges = _load("torch_ranges")
        if _SURVEYED:
            _load("torch_recording")
            ranges.install(_load("torch_survey"))
        else:
            ranges.install()
    except Exception as error:
        _give_up(error)
        return
    try:
        _load("torch_autotuning").install(ranges, _wait_for)
    except Exception as error:
        _give_up(error, "launches of autotuners are not marked")
    if os.environ.get("GPUPROF_MARK") and not _SURVEYED:
        try:
            _load("torch_marks").install(ranges)
        except Exception as error:
            _give_up(error, "what was chosen is not marked")


def _load(name: str) -> "Any":
    """Load a module from beside this file. Its name among the modules is where torch.compile looks up globals."""
    from importlib import util

    full_name = f"_gpuprof_{name}"
    spec = util.spec_from_file_location(full_name, os.path.join(_FOLDER, f"{name}.py"))  # noqa: PTH118
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[full_name] = module
    spec.loader.exec_module(module)
    return module


def _record_by_cupti() -> None:
    """Have cupti-python record the whole process, from here on."""
    try:
        _load("cupti_survey").install(os.environ["GPUPROF_SURVEY_TO"])
    except Exception as error:
        _give_up(error)


def _give_up(error: Exception, what: str = "") -> None:
    if sys.stderr is not None:
        what = what or ("the survey does not start" if _SURVEYED else "kernels get no module names")
        sys.stderr.write(f"gpuprof: {what}: {type(error).__name__}: {error}\n")


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
if _SURVEYED and os.environ.get("GPUPROF_SURVEY_BY") == "cupti":
    _record_by_cupti()
elif (_SURVEYED or os.environ.get("GPUPROF_ANNOTATE") == "1") and _WAITING_FOR not in sys.modules:
    _wait_for(_WAITING_FOR, _annotate)
_import_hidden()
