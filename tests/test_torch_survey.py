"""Programs that torch's own profiler records for a survey: they behave as without it, and their work is in traces."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from gpuprof.collect.annotate import surveyed
from gpuprof.collect.step_numbers import StepNumber, step_number
from gpuprof.errors import InputError
from gpuprof.read.torch_trace import read_torch_trace
from tests.torch_programs import NET, PLAIN_TORCH, QUIET, Servers, run_torch, servers

HARNESS = """
import gc, os, signal, sys, threading, time
import torch
from torch import nn
def use_cuda():  # what torch does where CUDA is first used; without us nothing of ours is among it
    for call, _ in torch.cuda._queued_calls:
        if (call.__module__ or "").startswith("_gpuprof"):
            call()
def in_child(work):
    sys.stdout.flush()
    gc.freeze()  # a child's collector need not go through, and so copy, all of torch
    pid = os.fork()
    if not pid:
        with open("children", "a") as names:
            names.write(f"{work.__name__} {os.getpid()}\\n")
        use_cuda()
        work()
        sys.exit(0)
    print(work.__name__, os.waitpid(pid, 0)[1])
net, x = nn.Linear(4, 4), torch.ones(2, 4)
"""

pytestmark = pytest.mark.torch

Event = dict[str, Any]
TRACES = "traces"


class Surveyed:
    """A Python that has torch, a folder for its script, and one for the traces."""

    def __init__(self, folder: Path, servers: Servers | None) -> None:
        self.folder, self.to, self.servers = folder, folder / TRACES, servers
        self.to.mkdir()

    def run(
        self, text: str, code: int = 0, *, on: bool = True, begin: str = "now", operators: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a script, recorded or not, from its start or `later`, where CUDA would be used first."""
        (self.folder / "script.py").write_text(text)
        (self.folder / "children").unlink(missing_ok=True)
        variables = {"GPUPROF_SURVEY_OPERATORS": operators}
        if self.servers is not None:
            server = self.servers.with_us if on else self.servers.without
            return server.run(self.folder, code, cuda=begin == "now", variables=variables)
        environ = {**PLAIN_TORCH, "GPUPROF_SURVEY_CPU": begin, **variables}
        words = [*QUIET, "script.py"]
        return run_torch(words, self.folder, surveyed(environ, self.to) if on else environ, code)

    def same(self, text: str, code: int = 0, *, begin: str = "now", operators: str = "") -> str:
        """Run a script without us and with us, ask for the same output, errors and exit code, and return the output."""
        without = self.run(text, code, on=False)
        assert not self.left()
        with_us = self.run(text, code, begin=begin, operators=operators)
        assert (with_us.stdout, with_us.stderr) == (without.stdout, without.stderr)
        return with_us.stdout

    def left(self) -> list[str]:
        return sorted(path.name for path in self.to.iterdir())

    def events(self, process: int | None = None) -> list[Event]:
        (trace,) = self.to.glob(f"torch-{process or '*'}.pt.trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
        return [event for event in events if event.get("ph") == "X" and event["cat"] != "Trace"]

    def children(self) -> dict[str, int]:
        lines = (self.folder / "children").read_text().splitlines()
        return {name: int(process) for name, process in (line.split() for line in lines)}

    def note(self, process: int) -> str | None:
        path = self.to / f"torch-{process}.note"
        return path.read_text() if path.exists() else None


@pytest.fixture
def fresh(tmp_path: Path) -> Surveyed:
    """A Python that is started for each program, and loads torch as any does."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    return Surveyed(folder, None)


@pytest.fixture(scope="module")
def loaded() -> Iterator[Servers]:
    """Processes that have loaded torch and torch.compile, but not used CUDA: in their children the recording begins.

    The folder for traces is one in the folder that a child runs in.
    """
    environ = surveyed({**PLAIN_TORCH, "GPUPROF_SURVEY_CPU": "later"}, Path())
    with servers({**environ, "GPUPROF_SURVEY_TO": TRACES}, "torch", "torch._dynamo") as both:
        yield both


@pytest.fixture
def torch(tmp_path: Path, loaded: Servers) -> Surveyed:
    return Surveyed(tmp_path, loaded)


def inside(events: Iterable[Event], outer: Event) -> list[str]:
    """The names of the events of a thread between the start and the end of one of them."""
    end = outer["ts"] + outer["dur"]
    return [
        event["name"]
        for event in events
        if event["tid"] == outer["tid"] and outer["ts"] <= event["ts"] and event["ts"] + event["dur"] <= end
    ]


def named(events: Iterable[Event], name: str) -> list[Event]:
    return [event for event in events if event["name"] == name and event["cat"] == "user_annotation"]


def test_modules_are_annotated_around_their_operators_and_operators_have_shapes(fresh: Surveyed) -> None:
    done = fresh.run(
        f"""{NET}
import os
os.environ.update(RANK="3", WORLD_SIZE="8")
for _ in range(2):
    with torch.profiler.record_function("whole_step"):
        net(x)["out"].sum().backward()
"""
    )
    assert (done.stdout, done.stderr) == ("", "")
    events = fresh.events()
    up, _ = named(events, "layers.0.mlp.up")
    assert {"aten::linear", "aten::addmm"} <= set(inside(events, up))
    mlp = set(inside(events, named(events, "layers.0.mlp")[0]))
    assert {"layers.0.mlp.up", "layers.0.mlp.down", "aten::relu"} <= mlp
    back = [inside(events, one) for one in named(events, "layers.0.mlp.up (backward)")]
    assert len(back) == 4 and any({"AddmmBackward0", "aten::mm"} <= set(names) for names in back)
    products = [event["args"]["Input Dims"] for event in events if event["name"] == "aten::addmm"]
    assert products[0] == [[16], [4, 8], [8, 16], [], []] and len(products) == 8
    # The reader takes it for what it is.
    (trace,) = fresh.to.iterdir()
    with pytest.raises(InputError, match="CPU"):
        read_torch_trace(BytesIO(trace.read_bytes()), trace.name, "")
    written = json.loads(gzip.decompress(trace.read_bytes()))
    assert written["distributedInfo"] == {"rank": 3, "world_size": 8}
    assert (written["gpuprof"]["from_start"], written["gpuprof"]["modules"]) == (True, ["Net"])
    ours = frozenset(written["gpuprof"]["ranges"])
    assert {"Net", "layers.0.mlp.up", "layers.0.mlp.up (backward)"} < ours
    assert named(events, "whole_step") and "whole_step" not in ours, "the program's own range is none of a module"
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": events[0]["ts"], "dur": 1, "pid": 0, "tid": 7, "args": {}}
    whole = json.dumps({**written, "traceEvents": [*written["traceEvents"], kernel]}).encode()
    read = read_torch_trace(BytesIO(whole), trace.name, "")
    assert read.hook_ranges == ours
    assert [(step.name, step_number(read, step)) for step in read.steps] == [
        ("call of Net", StepNumber("module", 1, "Net"))
    ]


def test_work_of_every_kind_is_recorded_and_gives_what_it_gives_without_us(torch: Surveyed) -> None:
    text = f"""{NET}
import threading
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        print(operator)
        return operator(*args, **(kwargs or {{}}))
def work():
    with torch.no_grad():
        nn.ModuleDict({{'in a "thread"\\\\': nn.Tanh()}})['in a "thread"\\\\'](x)
        holder = nn.Module()
        holder.forward = lambda x: inner['in a "thread"\\\\'](x)
        inner = holder.inner = nn.ModuleDict({{'in a "thread"\\\\': nn.Tanh()}})
        print(holder(x).sum())
with torch.inference_mode():
    print(net(x)["out"].sum())
linear = nn.Linear(8, 8)
print(torch.jit.trace(linear, x).code, torch.jit.script(linear)(x).shape, torch.jit.trace(linear, x)(x).shape)
with Seen():
    linear(x)
print(make_fx(linear)(x).code)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(threading.active_count(), torch.autograd._profiler_enabled())
"""
    assert "record_function" not in torch.same(text)
    events = torch.events()
    (tanh,) = named(events, "inner.in a _thread__")
    assert "aten::tanh" in inside(events, tanh)
    assert tanh["tid"] != named(events, "Net")[0]["tid"]


def test_forked_children_neither_record_nor_write_and_end_as_without_us(torch: Surveyed) -> None:
    text = f"""{HARNESS}
import multiprocessing
from torch.utils.data import DataLoader
def square(number):
    return float(net(torch.full((4,), number)).shape[0] * number)
net(x)
print([batch.tolist() for batch in DataLoader(range(6), batch_size=2, num_workers=2)])
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(square, [1.0, 2.0]))
sys.stdout.flush()
pid = os.fork()
if not pid:
    for _ in range(1000):
        net(x)
    print("child", torch.autograd._profiler_enabled())  # in C's buffer or Python's until the end
    sys.exit(7)
print(os.waitpid(pid, 0)[1])
net(x)
"""
    assert torch.same(text).endswith("child False\n1792\n")
    assert len(torch.left()) == 1
    assert len(named(torch.events(), "Linear")) == 2


EXITS = f"""{HARNESS}
def normally():
    net(x)
def by_exit_code():
    net(x)
    os.environ.clear()
    sys.exit(3)
def by_exception():
    net(x)
    raise ValueError("mine")
def by_interrupt():
    net(x)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
def in_a_module():
    class Exit(nn.Module):
        def forward(self, x):
            sys.exit(5)
    nn.Sequential(nn.Identity(), Exit())(x)
def without_work():
    pass
def at_once():
    net(x)
    os._exit(4)
def by_signal():
    net(x)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
for work in (normally, by_exit_code, by_exception, by_interrupt, in_a_module, without_work, at_once, by_signal):
    in_child(work)
with open("children", "a") as names:
    names.write(f"parent {{os.getpid()}}\\n")
use_cuda()
net(x)
sys.exit(9)
"""


def test_exits_exceptions_and_signals_are_the_program_s_own_and_leave_a_whole_trace_or_none(torch: Surveyed) -> None:
    printed = torch.same(EXITS, 9, begin="later")
    assert dict(line.split() for line in printed.splitlines()) == {
        "normally": "0",
        "by_exit_code": str(3 << 8),
        "by_exception": str(1 << 8),
        "by_interrupt": "2",
        "in_a_module": str(5 << 8),
        "without_work": "0",
        "at_once": str(4 << 8),
        "by_signal": "15",
    }
    children = torch.children()
    ended = [process for name, process in children.items() if name not in ("at_once", "by_signal")]
    assert torch.left() == sorted(f"torch-{process}.pt.trace.json.gz" for process in ended)
    assert named(torch.events(children["by_interrupt"]), "Linear")
    assert torch.events(children["without_work"]) == []
    assert {event["name"] for event in torch.events(children["in_a_module"])} >= {"Sequential", "0", "1"}


PROFILERS = f"""{HARNESS}
import torch._inductor.config  # which torch.profiler imports, once for all children
def seen(profile):
    return sum("addmm" in event.name for event in profile.events())
def once():
    net(x)
    with torch.profiler.profile() as profile:
        net(x)
    profile.export_chrome_trace(f"once.json")
    print(seen(profile), torch.autograd._profiler_enabled(), os.path.getsize("once.json") > 1000, flush=True)
    net(x)
def in_a_child_of_a_recorded_process():
    net(x)
    pid = os.fork()
    if not pid:
        once()
        os._exit(0)
    print(os.waitpid(pid, 0)[1], flush=True)
    net(x)
for work in (once, in_a_child_of_a_recorded_process):
    in_child(work)
"""


def test_torch_s_own_profiler_works_as_without_us_and_the_survey_ends_there(torch: Surveyed) -> None:
    without = torch.run(PROFILERS, on=False)
    done = torch.run(PROFILERS, begin="later")
    assert done.stdout == without.stdout
    children = torch.children()
    assert done.stderr.count("gpuprof: ") == 1
    assert all(torch.note(children[name]) for name in list(children)[:-1])
    assert len(named(torch.events(children["once"]), "Linear")) == 1
    # What a forked child does is its own affair.
    last = children["in_a_child_of_a_recorded_process"]
    assert torch.note(last) is None and len(named(torch.events(last), "Linear")) == 2


LIMITS = f"""{HARNESS}
until = time.monotonic() + 20
def is_over():
    return sys.modules["_gpuprof_torch_survey"]._state.over or time.monotonic() > until
def after_seconds():
    os.environ["GPUPROF_SURVEY_SECONDS"] = "0.3"
    while not is_over():
        net(x)
        time.sleep(0.01)
    for _ in range(100):
        net(x)
def after_operators():
    os.environ["GPUPROF_SURVEY_OPERATORS"] = "3000"
    for _ in range(2000):
        net(x).sum().backward()
def interrupted():  # while the recording is written
    os.environ["GPUPROF_SURVEY_OPERATORS"] = "3000"
    sys.modules["_gpuprof_torch_recording"].save = lambda *_: signal.raise_signal(signal.SIGINT)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        x.add_(1)
        time.sleep(0.0001)
for work in (after_seconds, after_operators, interrupted):
    in_child(work)
"""


def test_a_recording_ends_at_its_limits_and_notes_that(torch: Surveyed) -> None:
    done = torch.run(LIMITS, begin="later")
    children = torch.children()
    *ended, interrupted = done.stdout.splitlines()
    assert ended == [f"{name} 0" for name in children][:-1]
    # What the program's signal handlers raise while a recording is written reaches the program.
    assert interrupted == "interrupted 2"
    assert done.stderr.count("Traceback") == 1 and "gpuprof: " not in done.stderr
    assert " 0.3 s" in (torch.note(children["after_seconds"]) or "")
    assert 3 < len(named(torch.events(children["after_seconds"]), "Linear")) < 60
    assert "3000 operators" in (torch.note(children["after_operators"]) or "")
    assert 1000 < len(torch.events(children["after_operators"])) < 4000  # of the last block not all is there


def test_a_failure_of_ours_is_told_once_and_the_program_goes_on(torch: Surveyed) -> None:
    torch.to.rmdir()
    done = torch.run(f"{NET}\nprint(net(x)['out'].sum())")
    assert done.stdout == torch.run(f"{NET}\nprint(net(x)['out'].sum())", on=False).stdout
    assert done.stderr.startswith("gpuprof: ") and done.stderr.count("\n") == 1
