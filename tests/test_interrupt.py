"""Ctrl-C ends the program wherever it is, and leaves no half-written file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.table import each_row

START = "import signal; from gpuprof.cli.interrupt import end_at_once; end_at_once();"
INTERRUPTED = 130


def python(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_works_where_an_exception_would_be_lost() -> None:
    lost = "import weakref\nclass Thing: pass\nthing = Thing()\n"
    lost += "ref = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))\ndel thing\nprint('went on')\n"
    assert "went on" in python(f"import signal;{lost}").stdout
    done = python(f"{START}{lost}")
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "error: interrupted\n")


def test_drafts_and_new_folders_are_removed(tmp_path: Path) -> None:
    code = f"""{START}
import sys
from pathlib import Path
from gpuprof.cli.output import write_files

class Files(dict):
    def items(self):
        yield from super().items()
        assert list(Path(sys.argv[1]).rglob("*.tmp"))
        signal.raise_signal(signal.SIGINT)

write_files(Files({{Path(sys.argv[1]) / "new" / "page.html": b"x"}}))
"""
    done = python(code, tmp_path)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@each_row("name", ["SIGTERM", "SIGHUP"])
def test_other_ends_leave_nothing_either(tmp_path: Path, name: str) -> None:
    code = f"""import os, signal, sys
from pathlib import Path
from gpuprof.cli.interrupt import cleaned_up_by
draft = Path(sys.argv[1]) / "draft"
with cleaned_up_by(lambda: None):
    pass
assert signal.getsignal(signal.{name}) is signal.SIG_DFL
draft.touch()
with cleaned_up_by(draft.unlink):
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.{name})
    os.waitpid(child, 0)
    assert draft.exists()
    os.kill(os.getpid(), signal.{name})
"""
    done = python(code, tmp_path)
    assert (done.returncode, done.stderr) == (-getattr(signal, name), "")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_disassembly(tmp_path: Path) -> None:
    tool, pid, temporary = tmp_path / "nvdisasm", tmp_path / "pid", tmp_path / "temporary"
    tool.write_text(f"#!/bin/sh\necho $$ > {pid}.tmp && mv {pid}.tmp {pid}\nexec sleep 60\n", encoding="utf-8")
    tool.chmod(0o755)
    temporary.mkdir()
    code = f"""{START}
import sys
from pathlib import Path
from gpuprof.sass.tools.disassemble import Disassembler, placed_texts
placed_texts(Disassembler(Path(sys.argv[1]), (13, 1)), "sm_90", [bytes(16)])
"""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", code, str(tool)], env=environment, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not pid.exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == INTERRUPTED
    os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGKILL)
    assert list(temporary.iterdir()) == []
