"""Bytes that a program or a library reads as a file, and that leave nothing behind however this process ends."""

from __future__ import annotations

import os
import tempfile
import weakref


class NamedBytes:
    """Bytes with a path, for a reader that wants a file: in memory where the system can, else in a temporary folder.

    The path lives as long as the object. It is good in this process, and in one that is given the `handles`.
    """

    __slots__ = ("__weakref__", "_folder", "handles", "path")

    def __init__(self, data: bytes, name: str) -> None:
        self.handles: tuple[int, ...] = ()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):  # noqa: PTH112
            handle = os.memfd_create("gpuprof")
            weakref.finalize(self, os.close, handle)
            self.handles = (handle,)
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(data)
            self.path = f"/proc/self/fd/{handle}"
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="gpuprof-")
            self.path = os.path.join(self._folder.name, name)  # noqa: PTH118
            with open(self.path, "wb") as file:  # noqa: PTH123
                file.write(data)
