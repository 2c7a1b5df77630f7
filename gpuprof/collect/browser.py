"""Opens a page in the user's browser, and waits for neither."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuprof.working_folder import programs_path

_PATIENCE_S = 1.0
"""How long a browser that cannot be started is waited for; that which is there says nothing."""
_NO_BROWSER, _NOT_OPENED = 3, 4
_OPEN = f"""
import sys, webbrowser
try:
    webbrowser.get()
except webbrowser.Error:
    sys.exit({_NO_BROWSER})
sys.exit(0 if webbrowser.open(sys.argv[1]) else {_NOT_OPENED})
"""
"""In a process of its own: a browser may stay in the foreground for as long as it is open."""


def open_in_browser(page: Path, environ: Mapping[str, str]) -> str | None:
    """Open a page; return None, or why that cannot be done here. BROWSER names another browser than the usual one."""
    if not environ.get("BROWSER") and not _has_display(environ):
        return "there is no display here"
    try:
        # Isolated: a file webbrowser.py in the working folder is not Python's.
        started = subprocess.Popen(
            [sys.executable, "-I", "-c", _OPEN, page.resolve().as_uri()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**environ, "PATH": programs_path(environ)}, start_new_session=True,
        )  # fmt: skip
        code = started.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        return f"no browser could be started: {error.strerror or error}"
    return {0: None, _NO_BROWSER: "no browser was found"}.get(code, "the browser could not be started")


def _has_display(environ: Mapping[str, str]) -> bool:
    return sys.platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
