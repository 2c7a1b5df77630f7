"""Tools that crash, hang or print garbage, and names that a shell would run: a review ends, and says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprof.errors import EnvironmentProblem, InputError
from gpuprof.review import batch
from gpuprof.review.inputs import sources
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.tools import disassemble as disassembling
from gpuprof.sass.tools.compile import first_errors
from gpuprof.sass.tools.disassemble import Disassembler, disassemble
from tests.review_inputs import CACHE, modules, needs_nvcc
from tests.table import each_row

CODE = b"".join(number.to_bytes(16, "little") for number in range(10))


def tool(folder: Path, body: str) -> Disassembler:
    """An nvdisasm that answers and does what a script says."""
    path = folder / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Disassembler(path, (13, 5))


def unread(name: str = "k", target: str = "sm_90") -> CompiledKernel:
    kernel = CubinKernel(mangled=name, code=CODE)
    return CompiledKernel(name=name, target=target, origin="k", cubin=b"", kernel=kernel, shape=KnownLaunch())


# nvdisasm


@each_row(
    ("body", "most", "said"),
    [
        (r"printf '\377\376\n'", None, "0 of 10"),
        (r"yes $(printf 'x\n\377') | head -c 100000 >&2; exit 1", None, "sm_90: x \ufffd x"),
        ("yes '/*0000*/ NOP ;' | head -c 100000", 1000, "more than 41,960 bytes"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_the_tool_on_one_short_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, most: int | None, said: str
) -> None:
    if most is not None:
        monkeypatch.setattr(disassembling, "_MOST_TEXT", most)
    with pytest.raises(EnvironmentProblem) as caught:
        disassemble(tool(tmp_path, body), "sm_90", [CODE])
    assert said in caught.value.message
    assert len(caught.value.message) < 400 and "\n" not in caught.value.message


def test_one_that_hangs_is_asked_once_for_all_kernels_of_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    hangs = tool(tmp_path, f"echo x >> {asked}; exec sleep 100")
    monkeypatch.setattr(disassembling, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(batch, "disassembler_for", lambda _: hangs)
    told = batch.reviewed_batch([unread(f"k{number}") for number in range(4)])
    assert asked.read_text() == "x\n"
    assert all(len(kernel.notes) == 1 for kernel in told)


# Compilers


def test_of_a_log_the_first_errors_are_told_and_nothing_of_files_that_are_not_the_sources() -> None:
    log = (
        "ptxas /tmp/gpuprof-x/tmpxft_0_6_bad.ptx, line 33; error   : Unknown modifier '.instr'\n"
        f"k.cu(7): error: {'x' * 5000}\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
    )
    told = first_errors(log, lambda file: file == "k.cu")
    assert "Unknown modifier '.instr'" in told and "k.cu:7: error: xxx" in told
    assert "/tmp" not in told and "aborted" not in told and len(told) < 400
    log = (
        '/etc/passwd(1): error: identifier "root_secret" is undefined\n  root_secret: error: x\n  ^\n'
        "/etc/shadow:2:5: error: 'key_secret' was not declared\n    2 | key_secret error: y\n"
        "\x0c secret: error: z\n"
        "k.cu(3): error: expected a ;\n"
    )
    told = first_errors(log, lambda file: file == "k.cu")
    assert "secret" not in told
    assert told.startswith("/etc/passwd:1: error") and "/etc/shadow:2:5: error" in told
    assert told.endswith("k.cu:3: error: expected a ;")


@pytest.mark.compilers
@needs_nvcc
def test_names_and_macros_that_a_shell_would_run_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "compiler_for", lambda _: None)
    for name in ("$(touch run).cu", "a`touch run`.cu", 'a";touch run;".cu', "a\\.cu"):
        Path(name).write_text("#include <vector>\n__global__ void k() {}\n")
        with pytest.raises(InputError, match="shell"):
            modules(name, standard="c++17")
    Path("k.cu").write_text("#include <vector>\n__global__ void k() { const char *text = A; }\n")
    with pytest.raises(InputError, match="shell"):
        modules("k.cu", defines=('A="$(touch run)"',), standard="c++17")
    assert modules("k.cu", defines=('A="; touch run; "',))[0].holds == 1
    assert not Path("run").exists()


# Files that are none


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_and_devices_in_a_folder_of_triton_are_left_out(tmp_path: Path) -> None:
    cubin = next(iter(sorted(CACHE.glob("*/row_sums.cubin"))))
    (tmp_path / "good.cubin").write_bytes(cubin.read_bytes())
    os.mkfifo(tmp_path / "pipe.cubin")
    os.mkfifo(tmp_path / "good.json")
    os.mkfifo(tmp_path / "good.ttir")
    (tmp_path / "zero.cubin").symlink_to("/dev/zero")
    (tmp_path / "loop.cubin").symlink_to(tmp_path / "loop.cubin")
    (module,) = modules(tmp_path)
    assert len(module.kernels) == 1
    told = " ".join(module.notes)
    assert all(name in told for name in ("pipe.cubin", "zero.cubin", "loop.cubin"))


# Ctrl-C and kill

_WAITS = """
import os, sys
from pathlib import Path
from gpuprof.cli.interrupt import end_at_once, unwinding
from gpuprof.sass.tools.programs import private_folder, run
from gpuprof.errors import Interrupted
end_at_once()
try:
    with unwinding(), private_folder() as folder:
        run(["sh", "-c", 'echo $$ > "$0"; exec sleep 100', sys.argv[1]], 100, folder=folder)
except Interrupted as error:
    print(error.message)
    sys.exit(error.exit_code)
"""


_AT_ONCE = """
import os, signal, subprocess, sys
which = getattr(signal, sys.argv[2])
class Started(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        with open(sys.argv[1] + ".number", "w") as file:
            print(self.pid, file=file)
        os.kill(os.getpid(), which)
subprocess.Popen = Started
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@each_row(("name", "code"), [("SIGINT", 130), ("SIGTERM", -15), ("SIGHUP", -1)])
def test_what_a_review_started_ends_with_it_and_its_folder_goes(tmp_path: Path, name: str, code: int) -> None:
    """Also what it starts while the signal comes."""
    temporary, begun = tmp_path / "temporary", tmp_path / "begun"
    temporary.mkdir()
    environ = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", _WAITS, str(begun)]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as started:
        child = _number_in(begun)
        started.send_signal(getattr(signal, name))
        said, _ = started.communicate(timeout=60)
    said_of_interrupt = "interrupted\n" if name == "SIGINT" else ""
    assert (started.returncode, said) == (code, said_of_interrupt)
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    at_once = [sys.executable, "-c", _AT_ONCE + _WAITS, str(begun), name]
    done = subprocess.run(at_once, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, said_of_interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(_number_in(begun.with_suffix(".number")), 0)


def _number_in(file: Path) -> int:
    """The number of a process, once that has written it."""
    for _ in range(600):
        if file.is_file() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.1)
    raise AssertionError("it was never started")
