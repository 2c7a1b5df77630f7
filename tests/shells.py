"""Real shells on a terminal of their own: what stands on the command line once a key has been pressed."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROMPT = "ready> "
_PATIENCE_S = 60.0
_HOME = "\x01"


@dataclass(frozen=True)
class Kind:
    """How a shell is started, and what its file of settings says."""

    name: str
    options: tuple[str, ...]
    file: str
    settings: str

    @property
    def place(self) -> str | None:
        """The executable, if it is installed."""
        return shutil.which(self.name)


BASH = Kind(
    "bash", ("--noprofile", "--rcfile", "rc", "-i"), "rc",
    f"PS1='{PROMPT}'\nbind 'set enable-bracketed-paste off'\n" 'eval "$(_GPUPROF_COMPLETE=bash_source gpuprof)"\n',
)  # fmt: skip
ZSH = Kind(
    "zsh", ("-i",), ".zshrc",
    f"PROMPT='{PROMPT}'\nbindkey -e\nunsetopt prompt_sp zle_bracketed_paste\nautoload -Uz compinit\ncompinit -u -D\n"
    'eval "$(_GPUPROF_COMPLETE=zsh_source gpuprof)"\n',
)  # fmt: skip
FISH = Kind(
    "fish", ("-i",), "fish/config.fish",
    f"function fish_prompt; echo -n '{PROMPT}'; end\nset -g fish_greeting\nset -g fish_autosuggestion_enabled 0\n"
    "_GPUPROF_COMPLETE=fish_source gpuprof | source\n",
)  # fmt: skip
KINDS = (BASH, ZSH, FISH)


class Shell:
    """A running shell."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def line(self, typed: str) -> list[str]:
        """Type, press the tabulator, and return the words that the line then has."""
        os.write(self._terminal, typed.encode() + b"\t")
        # What was completed is printed by what is put before it.
        time.sleep(0.3)
        os.write(self._terminal, f"{_HOME}printf '{{%s}}' \r".encode())
        program = typed.split(maxsplit=1)[0]
        text = self.until(rf"\{{{program}\}}.*{PROMPT}")
        return re.findall(r"\{([^{}%]*)\}", text[text.rindex(f"{{{program}}}") :])

    def until(self, pattern: str) -> str:
        """Read until something has come."""
        seen, deadline = b"", time.monotonic() + _PATIENCE_S
        while not re.search(pattern, seen.decode(errors="replace"), re.DOTALL):
            assert time.monotonic() < deadline, seen
            if select.select([self._terminal], [], [], 0.1)[0]:
                seen += os.read(self._terminal, 4096)
        return seen.decode(errors="replace")


@contextlib.contextmanager
def shell(kind: Kind, home: Path, cwd: Path) -> Iterator[Shell]:
    """Start a shell in a folder, with settings of its own."""
    place = home / kind.file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(kind.settings, encoding="utf-8")
    environ = {
        **os.environ, "TERM": "xterm", "HOME": str(home), "ZDOTDIR": str(home), "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home), "LC_ALL": "C.UTF-8", "COLUMNS": "200",
    }  # fmt: skip
    options = [str(home / option) if option == kind.file else option for option in kind.options]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execvpe(kind.name, [kind.name, *options], environ)
    try:
        started = Shell(terminal)
        started.until(PROMPT)
        yield started
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
