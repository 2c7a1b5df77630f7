"""The samples of a run: what a sample file holds already, and what is added to it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gpuprof.characterize.record.samples import SampleFile
from gpuprof.characterize.record.series import Parameter, RunNote, Series, SeriesConfig
from gpuprof.errors import GpuprofError

SWEEP, FINAL = 0, 1
"""Rounds of a series: the sweep over configurations, and the winner measured again."""


class Store:
    """All series of a run, on disk before the next one is measured; without a file they are only remembered."""

    def __init__(self, file: SampleFile | None) -> None:
        self._file = file
        self._series = {_key(series): series for series in (file.stored.series if file is not None else ())}
        self.notes: list[RunNote] = list(file.stored.notes) if file is not None else []

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what was dropped when the file was read."""
        return self._file.stored.remarks if self._file is not None else ()

    def all(self) -> tuple[Series, ...]:
        """Return every series, in the order in which they were measured."""
        return tuple(self._series.values())

    def find(self, probe: str, config: SeriesConfig, round_: int) -> Series | None:
        """Return the series of a configuration, whatever was seen when it ran."""
        return self._series.get((probe, config, round_))

    def add(self, series: Series) -> None:
        """Keep a series. Raises GpuprofError where it cannot be written; what is in the file stays good."""
        self._append(series)
        self._series[_key(series)] = series

    def note(
        self,
        what: str,
        *,
        probe: str | None = None,
        why: str | None = None,
        facts: Mapping[str, Parameter] | None = None,
    ) -> None:
        """Keep a note on the run. Raises GpuprofError as `add` does."""
        note = RunNote(
            number=len(self.notes), what=what, time_s=time.time(), probe=probe, why=why, facts=facts or {}
        )  # fmt: skip
        self._append(note)
        self.notes.append(note)

    def _append(self, entry: Series | RunNote) -> None:
        if self._file is None:
            return
        try:
            self._file.append(entry)
        except OSError as error:
            raise GpuprofError(
                f"cannot write {self._file.path}: {error.strerror or error}",
                "what was measured is in it; free some space and continue with --resume",
            ) from error


def _key(series: Series) -> tuple[str, SeriesConfig, int]:
    return series.probe, series.config, series.round
