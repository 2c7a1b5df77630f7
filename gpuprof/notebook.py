"""A session as notebooks use it: it shows itself, gives figures and tables, and can be saved.

Everything that draws or makes tables is imported when it is first used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gpuprof.errors import InputError
from gpuprof.hardware.specs import LEVELS
from gpuprof.model.field_types import ORIGINS
from gpuprof.model.session import KernelProfile, Session

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_FIGURE_INCHES = (8.6, 5.6)
_ROWS_SHOWN = 10


class LoadedSession(Session, frozen=True):
    """What `gpuprof.load` returns: the session of the contract, with views for notebooks. It equals its plain twin."""

    @classmethod
    def of(cls, session: Session) -> LoadedSession:
        """Return a session with the same content."""
        return cls(**structs.asdict(session))

    def __eq__(self, other: object) -> bool:
        return structs.astuple(self) == structs.astuple(other) if isinstance(other, Session) else NotImplemented

    def __ne__(self, other: object) -> bool:
        # A Struct has one of its own, for which values of two types always differ.
        return not self == other if isinstance(other, Session) else NotImplemented

    def __hash__(self) -> int:
        return hash(Session(**structs.asdict(self)))

    def __repr__(self) -> str:
        return f"<gpuprof session: {self._verdict()}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return what `rich` shows: a Struct's own would be every value of every kernel."""
        return [("", self._verdict())]

    def _verdict(self) -> str:
        from gpuprof.text import printable
        from gpuprof.words.profile_values import verdict_text

        return printable(verdict_text(self))

    def _repr_html_(self) -> str:
        """Show the verdict, what to fix first and the longest kernels, equal launches as one: what Jupyter calls."""
        from gpuprof.diagnose.summary import grouped
        from gpuprof.model.headline import by_time
        from gpuprof.model.time_by import first_times
        from gpuprof.views.html import render_fragment
        from gpuprof.views.profile import summary
        from gpuprof.words.session import worded

        session = worded(grouped(self))
        kernels = by_time(session.kernels)
        return render_fragment(summary(session, kernels, _ROWS_SHOWN, first_times(session, kernels)))

    def kernel(self, number: int) -> KernelProfile:
        """Return the kernel of that number. Raises InputError, which names the numbers that there are."""
        kernel = next((kernel for kernel in self.kernels if kernel.id == number), None)
        if kernel is None:
            numbers = ", ".join(str(kernel.id) for kernel in self.kernels[:20])
            raise InputError(f"there is no kernel {number}", f"choose from: {numbers}" if numbers else None)
        return kernel

    def plot_roofline(
        self,
        ax: Axes | None = None,
        level: str = "dram",
        ceiling: str = "at-clock",
        kernel: int | None = None,
        device: int = 0,
    ) -> Axes:
        """Draw the roofline of all kernels of a GPU at a memory level, or of one `kernel` at all three levels.

        Draws into `ax`, or into a new pyplot figure. Returns the axes, so that a notebook can add to them.
        """
        from gpuprof.text import printable
        from gpuprof.views.plot import draw_plot
        from gpuprof.views.roofline_data import hierarchical, overview
        from gpuprof.views.roofline_plot import roofline_drawing

        if level not in LEVELS:
            raise InputError(f"unknown memory level {level!r}", f"choose from: {', '.join(LEVELS)}")
        if ceiling not in ORIGINS:
            raise InputError(f"unknown ceiling {ceiling!r}", f"choose from: {', '.join(ORIGINS)}")
        if kernel is None:
            figure = overview(self, device, level, ceiling)
        else:
            figure = hierarchical(self, self.kernel(kernel).id, ceiling)
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=_FIGURE_INCHES)[1]
        draw_plot(roofline_drawing(figure), ax)
        ax.set_title(printable(figure.title), loc="left", parse_math=False)
        return ax

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per kernel and the columns of `show --format csv`."""
        import pandas

        from gpuprof.views.exports.tables import kernel_rows

        return pandas.DataFrame.from_records(kernel_rows(self))

    def findings_dataframe(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per finding, the first to fix first."""
        import pandas

        from gpuprof.views.exports.tables import FINDING_COLUMNS, finding_rows

        return pandas.DataFrame.from_records(finding_rows(self), columns=list(FINDING_COLUMNS))

    def time_by(self, by: str) -> pandas.DataFrame:
        """Return a pandas DataFrame with the time by "operator", "module", "range" or "kernel", the longest first.

        Raises UsageError where nothing has an operator, a module or a range, with what would record it.
        """
        import pandas

        from gpuprof.model.time_by import time_by
        from gpuprof.views.exports.tables import time_rows

        return pandas.DataFrame.from_records(time_rows(time_by(self, self.kernels, by)))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the session as JSON, which `gpuprof.load` and `gpuprof show` read again.

        Raises FileExistsError rather than to replace a file, unless `overwrite`; ValueError, before the file is
        touched, for a number that is not finite.
        """
        from gpuprof.store.write import session_pieces

        pieces = session_pieces(self)
        first = next(pieces)
        with Path(path).open("wb" if overwrite else "xb") as out:
            out.write(first)
            out.writelines(pieces)
