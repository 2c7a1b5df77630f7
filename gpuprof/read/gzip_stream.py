"""What gzip has packed, unpacked piece by piece within bounds."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import BinaryIO

from gpuprof.errors import DamagedInput


class Unzipped:
    """A gzip file as a stream of what it holds. `check` gets how many bytes have come, and raises if they are too many.

    `again` is what to do about a file that cannot be unpacked; with `salvage` it ends there, and `damage` says why.
    """

    def __init__(
        self, file: BinaryIO, name: str, check: Callable[[int], None], again: str, *, salvage: bool = False
    ) -> None:
        self._stream = gzip.GzipFile(fileobj=file)
        self._name, self._check, self._again = name, check, again
        self._salvage = salvage
        self._size = 0
        self.damage: str | None = None

    def read1(self, size: int, /) -> bytes:
        """Return the next bytes, at most so many; none at the end. Raises DamagedInput for what is no gzip data."""
        try:
            piece = self._stream.read1(size) if self.damage is None else b""
        except (EOFError, OSError, zlib.error) as error:
            self.damage = f"it cannot be unpacked: {error}"
            if not self._salvage:
                raise DamagedInput(f"{self._name} is damaged: {self.damage}", self._again) from error
            return b""
        self._size += len(piece)
        self._check(self._size)
        return piece
