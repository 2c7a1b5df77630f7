"""gpuprof: which GPU kernels matter, how close each is to its roof, and why it is not closer."""

from gpuprof._version import __version__

TYPE_CHECKING = False
"""Type checkers take it for true. Of `typing`, `python -m gpuprof` would import one in the working folder."""

if TYPE_CHECKING:
    from gpuprof import errors, events
    from gpuprof.api import check, listing, load, load_spec
    from gpuprof.api_compare import compare
    from gpuprof.profiling import plan, profile
    from gpuprof.ranges import annotate

__all__ = [
    "__version__", "annotate", "check", "compare", "errors", "events", "listing", "load", "load_spec", "plan", "profile"
]  # fmt: skip


if not TYPE_CHECKING:  # a name that is not there is then told by type checkers

    def __getattr__(name: str) -> object:
        """Import what is asked for on first use, so that `import gpuprof` costs nothing."""
        if name == "annotate":
            from gpuprof.ranges import annotate

            return annotate
        if name in ("check", "listing", "load", "load_spec"):
            from gpuprof import api

            return getattr(api, name)
        if name == "compare":
            from gpuprof.api_compare import compare

            return compare
        if name in ("plan", "profile"):
            from gpuprof import profiling

            return getattr(profiling, name)
        if name == "errors":
            import gpuprof.errors as errors_module

            return errors_module
        if name == "events":
            import gpuprof.events as events_module

            return events_module
        raise AttributeError(f"module 'gpuprof' has no attribute {name!r}")
