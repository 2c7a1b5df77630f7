"""The samples of a run: what a sample file holds already, and what is added to it."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.characterize.record.configurations import chosen
from gpuprof.characterize.record.samples import Parameter, SampleFile, Series
from gpuprof.errors import GpuprofError

SWEEP, FINAL = 0, 1
"""Rounds of a series: the sweep over configurations, and the winner measured again."""

_Key = tuple[str, frozenset[tuple[str, Parameter]], int]


class Store:
    """All series of a run, on disk before the next one is measured; without a file they are only remembered."""

    def __init__(self, file: SampleFile | None) -> None:
        self._file = file
        stored = file.stored.series if file is not None else ()
        self._series = {_key(one.probe, one.configuration, one.round): one for one in stored}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what was dropped when the file was read."""
        return self._file.stored.remarks if self._file is not None else ()

    def all(self) -> tuple[Series, ...]:
        """Return every series, in the order in which they were measured."""
        return tuple(self._series.values())

    def find(self, probe: str, words: Mapping[str, Parameter], number: int) -> Series | None:
        """Return the series of a configuration, whatever was seen when it ran."""
        return self._series.get(_key(probe, words, number))

    def add(self, series: Series) -> None:
        """Keep a series. Raises GpuprofError where it cannot be written; what is in the file stays good."""
        if self._file is not None:
            _append(self._file, series)
        self._series[_key(series.probe, series.configuration, series.round)] = series


def _append(file: SampleFile, series: Series) -> None:
    try:
        file.append(series)
    except OSError as error:
        raise GpuprofError(
            f"cannot write {file.path}: {error.strerror or error}",
            "what was measured before is in it; make room and go on with --resume",
        ) from error


def _key(probe: str, words: Mapping[str, Parameter], number: int) -> _Key:
    return probe, frozenset(chosen(words).items()), number
