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
        """The names of all files in the folder for traces."""
        return sorted(path.name for path in self.to.iterdir())

    def events(self, process: int | None = None) -> list[Event]:
        """The events of the one trace there is, or of the one of a process."""
        (trace,) = self.to.glob(f"torch-{process or '*'}.pt.trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
        return [event for event in events if event.get("ph") == "X" and event["cat"] != "Trace"]

    def children(self) -> dict[str, int]:
        """The processes in which the parts of the last script ran."""
        lines = (self.folder / "children").read_text().splitlines()
        return {name: int(process) for name, process in (line.split() for line in lines)}

    def note(self, process: int) -> str | None:
        """What a process has noted beside its trace."""
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
    """A Python that has loaded torch."""
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
    """The annotations of a name."""
    return [event for event in events if event["name"] == name and event["cat"] == "user_annotation"]


def test_modules_are_annotated_around_their_operators_and_operators_have_shapes(fresh: Surveyed) -> None:
    done = fresh.run(
        f"""{NET}
import os
os.environ.update(RANK="3", WORLD_SIZE="8")
for _ in range(2):
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
    assert written["distributedInfo"] == {"rank": 3, "world_size": 8} and written["gpuprof"] == {"from_start": True}


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


LOOP = """
import time
until = time.monotonic() + 20
def is_over():  # without us there is nothing to end
    survey = sys.modules.get("_gpuprof_torch_survey")
    return survey is None or survey._state.over or time.monotonic() > until
net = torch.compile(net, backend="eager")
for _ in range(3):
    net(x)["out"].sum().backward()
@torch.compile(backend="eager")
def step(x):
    for _ in range(3):
        x = x + x  # a number would take five operators
        torch._dynamo.graph_break()
    return x
while not is_over():
    step(x)
for _ in range(100):
    step(x)
from torch._dynamo.utils import counters
print(counters["stats"], counters["graph_break"], counters["frames"])
"""


def test_a_compiled_program_compiles_as_without_us_also_when_the_recording_ends_in_its_midst(torch: Surveyed) -> None:
    assert "unique_graphs" in torch.same(f"{NET}{LOOP}", operators="2000")
    assert [name.rpartition(".")[2] for name in torch.left()] == ["note", "gz"]
    assert named(torch.events(), "Net")


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


def test_processes_that_multiprocessing_starts_leave_traces_of_their_own(torch: Surveyed) -> None:
    text = f"""{HARNESS}
import multiprocessing
def work(number):
    use_cuda()
    net(torch.ones(number, 4))
if __name__ == "__main__":
    for way in ("spawn", "fork"):
        child = multiprocessing.get_context(way).Process(target=work, args=(3 if way == "spawn" else 5,))
        child.start()
        child.join()
        print(child.exitcode)
"""
    done = torch.run(text, begin="later")
    assert (done.stdout, done.stderr) == ("0\n0\n", "")
    traces = [torch.events(int(name.split(".")[0].split("-")[1])) for name in torch.left()]
    shapes = [
        event["args"]["Input Dims"][0] for events in traces for event in events if event["name"] == "aten::linear"
    ]
    assert sorted(shapes) == [[3, 4], [5, 4]] and len(traces) == 2


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


def test_processes_without_torch_or_work_on_a_gpu_leave_nothing(fresh: Surveyed, torch: Surveyed) -> None:
    assert fresh.run("print(1)").stdout == "1\n"
    assert fresh.left() == []
    torch.same(f"{NET}\nprint(net(x)['out'].sum())", begin="later")
    assert torch.left() == []


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
def by_schedule():
    net(x)
    ready = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=lambda one: ready.append(seen(one))) as profile:
        for _ in range(8):
            net(x)
            profile.step()
    print(ready, flush=True)
def inside_a_module():
    class Profiled(nn.Module):
        def forward(self, x):
            with torch.profiler.profile() as profile:
                net(x)
            return profile
    print(seen(nn.Sequential(Profiled())(x)), flush=True)
def in_a_child_of_a_recorded_process():
    net(x)
    pid = os.fork()
    if not pid:
        once()
        os._exit(0)
    print(os.waitpid(pid, 0)[1], flush=True)
    net(x)
for work in (once, by_schedule, inside_a_module, in_a_child_of_a_recorded_process):
    in_child(work)
"""


def test_torch_s_own_profiler_works_as_without_us_and_the_survey_ends_there(torch: Surveyed) -> None:
    without = torch.run(PROFILERS, on=False)
    done = torch.run(PROFILERS, begin="later")
    assert done.stdout == without.stdout
    children = torch.children()
    assert done.stderr.count("gpuprof: ") == 3
    assert all(torch.note(children[name]) for name in list(children)[:-1])
    assert len(named(torch.events(children["once"]), "Linear")) == 1
    assert len(named(torch.events(children["by_schedule"]), "Linear")) == 2
    assert [one["name"] for one in torch.events(children["inside_a_module"])] == ["Sequential", "0"]
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
def in_a_thread():
    os.environ["GPUPROF_SURVEY_OPERATORS"] = "3000"
    in_step = threading.Barrier(3)
    def work():
        for turn in range(4000):
            if turn < 1000:  # no thread has come to the limit before the others begin
                in_step.wait()
            net(x)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
def interrupted():  # while the recording is written
    os.environ["GPUPROF_SURVEY_OPERATORS"] = "3000"
    sys.modules["_gpuprof_torch_recording"].save = lambda *_: signal.raise_signal(signal.SIGINT)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        x.add_(1)
        time.sleep(0.0001)
def told_to_exit():
    signal.signal(signal.SIGINT, lambda *_: sys.exit(6))
    try:
        interrupted()
    except SystemExit as error:
        os._exit(error.code)
for work in (after_seconds, after_operators, in_a_thread, interrupted, told_to_exit):
    in_child(work)
"""


def test_a_recording_ends_at_its_limits_and_notes_that(torch: Surveyed) -> None:
    done = torch.run(LIMITS, begin="later")
    children = torch.children()
    *ended, interrupted, told_to_exit = done.stdout.splitlines()
    assert ended == [f"{name} 0" for name in children][:-2]
    # What the program's signal handlers raise while a recording is written reaches the program.
    assert (interrupted, told_to_exit) == ("interrupted 2", f"told_to_exit {6 << 8}")
    assert done.stderr.count("Traceback") == 1 and "gpuprof: " not in done.stderr
    assert " 0.3 s" in (torch.note(children["after_seconds"]) or "")
    assert 3 < len(named(torch.events(children["after_seconds"]), "Linear")) < 60
    for name in ("after_operators", "in_a_thread"):
        assert "3000 operators" in (torch.note(children[name]) or "")
        assert len(torch.events(children[name])) > 1000  # of the last block of a thread not all is there
    assert len(torch.events(children["after_operators"])) < 4000
    assert len({event["tid"] for event in torch.events(children["in_a_thread"])}) == 3


def test_a_failure_of_ours_is_told_once_and_the_program_goes_on(torch: Surveyed) -> None:
    torch.to.rmdir()
    done = torch.run(f"{NET}\nprint(net(x)['out'].sum())")
    assert done.stdout == torch.run(f"{NET}\nprint(net(x)['out'].sum())", on=False).stdout
    assert done.stderr.startswith("gpuprof: ") and done.stderr.count("\n") == 1
