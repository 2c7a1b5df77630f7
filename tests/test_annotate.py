"""Programs under the injected environment: they behave as without it, and torch's modules are marked."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gpuprof
from gpuprof.collect.annotate import INJECTED, Marked, annotated, marking, marks_text
from gpuprof.model.labels import launch_labels
from gpuprof.model.set_up import AUTOTUNING_RANGE as RANGE
from gpuprof.model.torch_ranges import MARK, launched_by, readable_range, unit_of
from tests.table import each_row
from tests.torch_programs import NET, PLAIN, PLAIN_TORCH, QUIET, Servers, run, run_torch, servers

SEEN = """
import os, sys, warnings
print(__name__, __file__ if "__file__" in globals() else None, __package__, sys.argv, sys.path, os.getcwd())
print(sorted(sys.modules), sys.flags, warnings.filters)
"""


def same_with_and_without(arguments: list[str], folder: Path, code: int = 0, **extra: str) -> str:
    """Run Python twice, ask for the same output, errors and exit code, and return the output."""
    environ = {**PLAIN, **extra}
    without = run(arguments, folder, environ, code)
    with_us = run(arguments, folder, annotated(environ), code)
    assert (with_us.stdout, with_us.stderr) == (without.stdout, without.stderr)
    return with_us.stdout


PACKAGE = {
    "package/__init__.py": "",
    "package/other.py": "VALUE = 42\n",
    "package/main.py": f"from .other import VALUE\nprint(VALUE)\n{SEEN}",
}
POOL = """
import multiprocessing, sys
def work(number):
    return number * 2, sys.path
if __name__ == "__main__":
    for way in ("spawn", "fork"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(pool.map(work, [1, 2]))
"""
FAILS = (
    "import sys\ntry:\n    import torch_is_absent, torch\nexcept (ImportError, OSError) as error:\n    print(error)\n"
)
LOOKS = "import sys; print(getattr(sys, 'mine', None), 'sitecustomize' in sys.modules, sys.path)"


@each_row(
    ("files", "arguments", "code", "printed"),
    [
        ({"script.py": SEEN}, ["script.py", "--lr", "3"], 0, "__main__"),
        ({"../script.py": SEEN}, ["-W", "error", "../script.py"], 0, "__main__"),
        (PACKAGE, ["-m", "package.main", "x"], 0, "42\n__main__"),
        ({}, ["-c", SEEN, "a"], 0, "__main__"),
        ({"script.py": POOL}, ["script.py"], 0, "[(2, ["),
        ({"script.py": "import sys\nsys.exit(3)\n"}, ["script.py"], 3, ""),
        ({"script.py": "def f():\n    raise ValueError('mine')\nf()\n"}, ["script.py"], 1, ""),
        ({"script.py": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"}, ["script.py"], -15, ""),
        ({"script.py": "this is no Python\n"}, ["script.py"], 1, ""),
        ({}, ["-c", FAILS], 0, "No module named 'torch_is_absent'"),
        ({"torch.py": "raise OSError('no libcudart')\n"}, ["-c", FAILS.replace("torch_is_absent, ", "")], 0,
         "no libcudart\n"),
        ({"own/sitecustomize.py": "import sys\nsys.mine = 7\n"}, ["-c", LOOKS], 0, "7 True"),
        ({"own/sitecustomize.py": "raise RuntimeError('mine')\n"}, ["-c", LOOKS], 0, "None False"),
    ],
)  # fmt: skip
def test_a_program_does_what_it_does_without_us(
    tmp_path: Path, files: dict[str, str], arguments: list[str], code: int, printed: str
) -> None:
    place = tmp_path / "place"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    place.mkdir(exist_ok=True)
    extra = {"PYTHONPATH": str(place / "own")} if (place / "own").is_dir() else {}
    output = same_with_and_without(arguments, place, code, **extra)
    assert output.startswith(printed)
    assert str(INJECTED) not in output


def test_nothing_is_marked_without_the_variable(tmp_path: Path) -> None:
    code = "import sys; print([str(finder) for finder in sys.meta_path])"
    watched = run(["-c", code], tmp_path, annotated(PLAIN)).stdout
    off = run(["-c", code], tmp_path, {**annotated(PLAIN), "GPUPROF_ANNOTATE": "0"}).stdout
    assert "_Watcher" in watched and "_Watcher" not in off


# With torch

RANGES = "ranges"
MARKED = annotated({**PLAIN_TORCH, "GPUPROF_RANGES_TO": RANGES})
"""Ranges are written to a file in the folder that a program runs in."""
Python = Callable[[Path, bool, int], subprocess.CompletedProcess[str]]
"""Runs the script in a folder, with us or without, and asks for its exit code."""


class Ran(NamedTuple):
    """A program that was run: what it printed, and the ranges it opened, each with those around it."""

    stdout: str
    ranges: list[tuple[str, ...]]

    @property
    def names(self) -> list[str]:
        """The innermost name of every range."""
        return [stack[-1] for stack in self.ranges]


@dataclass(frozen=True)
class Torch:
    """A Python that has torch, with which programs are run, marked or not."""

    folder: Path
    python: Python

    def run(self, text: str, *, on: bool = True, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a script, marked or not."""
        (self.folder / "script.py").write_text(text)
        (self.folder / RANGES).write_text("")
        return self.python(self.folder, on, code)

    def marked(self, text: str) -> Ran:
        """Run a script with and without us, and ask for the same output and errors."""
        without = self.run(text, on=False)
        assert not self._ranges()
        done = self.run(text)
        assert (done.stdout, done.stderr) == (without.stdout, without.stderr)
        return Ran(done.stdout, self._ranges())

    def alone(self, text: str) -> Ran:
        """Run a script with us alone; nothing may be said on stderr."""
        done = self.run(text)
        assert done.stderr == ""
        return Ran(done.stdout, self._ranges())

    def names(self, text: str) -> list[str]:
        """The innermost name of every range that a script opens, which prints what it prints without us."""
        return self.marked(text).names

    def _ranges(self) -> list[tuple[str, ...]]:
        """The ranges as they were opened; asserts that all were closed."""
        opened: list[tuple[str, ...]] = []
        stacks: dict[str, list[str]] = {}
        for line in (self.folder / RANGES).read_text().splitlines():
            process, thread, sign, name = line.split(" ", 3)
            stack = stacks.setdefault(f"{process} {thread}", [])
            if sign == "+":
                stack.append(name)
                opened.append(tuple(stack))
            else:
                stack.pop()
        assert not any(stacks.values())
        return opened


def started(folder: Path, on: bool, code: int) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder in a Python that is started for it."""
    return run_torch([*QUIET, "script.py"], folder, MARKED if on else PLAIN_TORCH, code)


@pytest.fixture
def fresh(tmp_path: Path) -> Torch:
    """A Python that is started for each program, and loads torch as any does."""
    return Torch(tmp_path, started)


@pytest.fixture(scope="module")
def loaded() -> Iterator[Servers]:
    """Processes that have loaded torch, torch.compile, and what its first use loads."""
    with servers(MARKED, "torch", "torch._dynamo", "torch._functorch.aot_autograd") as both:
        yield both


@pytest.fixture
def torch(tmp_path: Path, loaded: Servers) -> Torch:
    """A Python that has loaded torch."""
    return Torch(tmp_path, lambda folder, on, code: (loaded.with_us if on else loaded.without).run(folder, code))


BLOCK = ["", ".norm", ".mlp", ".mlp.up", ".mlp.down"]


@pytest.mark.torch
def test_modules_are_marked_with_their_path(fresh: Torch) -> None:
    marked = fresh.alone(f"{NET}\nwith torch.no_grad():\n    print(net(x)['out'].sum())")
    assert marked.names == ["Net", *(f"layers.{number}{part}" for number in range(2) for part in BLOCK)]
    assert marked.ranges[4] == ("Net", "layers.0", "layers.0.mlp", "layers.0.mlp.up")


@pytest.mark.torch
def test_backward_nodes_are_marked_with_the_module_that_made_them_in_every_step(torch: Torch) -> None:
    step = "nn.MSELoss()(net(x)['out'], x).backward()"
    names = torch.names(f"{NET}\nfor _ in range(3):\n    {step}\nprint(net.layers[0].norm.weight.grad)")
    third = len(names) // 3
    assert names[:third] == names[third : 2 * third] == names[2 * third :]
    backward = [name for name in names[:third] if name.endswith(" (backward)")]
    # A linear layer makes two nodes (its product and the transposition), a block one, for its addition.
    block = {".mlp.down": 2, ".mlp": 1, ".mlp.up": 2, ".norm": 1, "": 1}
    expected = {f"layers.{number}{part} (backward)": nodes for number in range(2) for part, nodes in block.items()}
    assert Counter(backward) == {"MSELoss (backward)": 1, **expected}
    assert backward[0] == "MSELoss (backward)" and backward[-1] == "layers.0.norm (backward)"


@pytest.mark.torch
def test_shared_unregistered_and_later_modules_have_names(torch: Torch) -> None:
    text = """
import torch
from torch import nn
shared = nn.Linear(2, 2)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.free = shared, shared, [nn.Identity()]
    def forward(self, x):
        return nn.ReLU()(self.free[0](self.b(self.a(x))))
class Outer(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        return self.net(x)
net = Net()
with torch.no_grad():
    net(torch.ones(1, 2))
    Outer(net)(torch.ones(1, 2))
"""
    alone = ["Net", "a", "a", "Net.Identity", "Net.ReLU"]
    assert torch.names(text) == [*alone, "Outer", "net", "net.a", "net.a", "Net.Identity", "net.ReLU"]


@pytest.mark.torch
def test_exceptions_in_forward_pass_and_close_what_is_open(torch: Torch) -> None:
    text = f"""{NET}
class Bad(nn.Module):
    def forward(self, x):
        raise self.what
for what in (ValueError("mine"), KeyboardInterrupt(), SystemExit(4)):
    bad = Bad()
    bad.what = what
    try:
        nn.Sequential(nn.Identity(), bad)(x)
    except BaseException as error:
        print(type(error), error.args)
nn.Identity()(x)
"""
    marked = torch.marked(text)
    assert marked.names == [*["Sequential", "0", "1"] * 3, "Identity"]
    assert marked.ranges[-1] == ("Identity",)


@pytest.mark.torch
def test_compiled_modules_compile_once_into_the_same_graph(torch: Torch) -> None:
    text = f"""{NET}
from torch._dynamo.utils import counters
class Breaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), torch._dynamo.disable(nn.Linear(8, 8))
    def forward(self, x):
        x = self.a(x)
        torch._dynamo.graph_break()
        return self.b(x) + 1
other = Net()
other.compile(fullgraph=True, backend="eager")
net = torch.compile(net, backend="eager", fullgraph=True)
for _ in range(3):
    for compiled in (net, other):
        compiled(x)['out'].sum().backward()
print(counters["stats"], counters["graph_break"], counters["frames"])
torch.compile(Breaking(), backend="eager")(x).sum().backward()
print(counters["stats"])
"""
    marked = torch.marked(text)
    assert "unique_graphs': 1" in marked.stdout
    assert {name for name in marked.names if "backward" not in name} >= {"Net", "Breaking"}
    assert not [name for name in marked.names if name.startswith("layers") and "backward" not in name]


@pytest.mark.torch
def test_a_failure_of_ours_is_told_once_and_the_program_goes_on(torch: Torch) -> None:
    text = f"""{NET}
import os
net(x)
os.open = None  # what the recorder of these tests writes with
for _ in range(3):
    out = net(x)['out'].sum()
    out.backward()
print(float(out.detach()))
"""
    without = torch.run(text, on=False)
    done = torch.run(text)
    assert done.stdout == without.stdout
    assert done.stderr.count("gpuprof: ") == 1 and "TypeError" in done.stderr


# Chosen parts of one step


def test_what_is_to_be_marked_is_written_to_a_file_that_the_environment_names(tmp_path: Path) -> None:
    parts = Marked(2, "module", ("layers.0", "optimizer step"), "profiler", module="Net")
    assert marking(tmp_path / "mark.json") == {"GPUPROF_MARK": str(tmp_path / "mark.json")}
    assert json.loads(marks_text(parts)) == {
        "step": 2, "by": "module", "module": "Net", "units": ["layers.0", "optimizer step"], "with": "profiler",
    }  # fmt: skip


CHOOSING = f"""
import importlib.util, os, sys
import torch
torch.cuda.is_initialized = lambda: True
if "_gpuprof_torch_ranges" in sys.modules:  # what our sitecustomize does when torch is loaded
    os.environ["GPUPROF_MARK"] = "mark.json"
    spec = importlib.util.spec_from_file_location("marks", {str(INJECTED / "torch_marks.py")!r})
    marks = sys.modules["marks"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(marks)
    marks.install(sys.modules["_gpuprof_torch_ranges"])
"""
"""The server has loaded torch, and our part, before a test can say what is to be marked. There is no CUDA here."""
TRAINING = f"""{CHOOSING}{NET}
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    nn.MSELoss()(net(x)["out"], x).backward()
    optimizer.step()
print(net.layers[0].norm.weight.sum())
"""
INFERENCE = f"""{CHOOSING}{NET}
with torch.no_grad():
    for _ in range(3):
        print(net(x)["out"].sum())
"""
UP, UP_BACK = "layers.0.mlp.up", "layers.0.mlp.up (backward)"


def under_marks(torch: Torch, parts: Marked, text: str) -> list[tuple[int, str]]:
    """What has a mark around it in a program: the number of calls of Net before, and the range; "" if there is none."""
    (torch.folder / "mark.json").write_text(marks_text(parts))
    assert torch.marked(text).stdout
    lines = (torch.folder / RANGES).read_text().splitlines()
    opened = [line.split(" ", 3)[3] for line in lines]
    calls = 0
    found = []
    for name, following in zip(opened, [*opened[1:], ""], strict=True):
        calls += name == "Net"
        if name == MARK:
            found.append((calls + (following == "Net"), following))
    return found


@pytest.mark.torch
@each_row(
    ("text", "step", "units", "found"),
    [
        (TRAINING, ("optimizer", 0), (UP,), [(1, UP)]),
        (TRAINING, ("optimizer", 1), (UP, "layers.1.norm"), [(2, UP), (2, "layers.1.norm")]),
        (TRAINING, ("optimizer", 1), (UP_BACK,), [(2, UP_BACK)] * 2),
        (TRAINING, ("optimizer", 2), ("optimizer step", "MSELoss"), [(3, "MSELoss"), (3, "")]),
        (TRAINING, ("optimizer", 2), ("Net", "layers.0", UP), [(3, "Net")]),
        (TRAINING, ("optimizer", 3), ("Net", UP_BACK, "optimizer step"), []),
        (TRAINING, ("optimizer", 1), ("layers.7",), []),
        (TRAINING, ("module", 2, "Net"), ("Net", "MSELoss", "optimizer step"), [(2, "Net"), (2, "MSELoss"), (2, "")]),
        (TRAINING, ("module", 2), ("Net", "MSELoss", UP_BACK), [(1, "MSELoss"), (1, UP_BACK), (1, UP_BACK)]),
        (INFERENCE, ("module", 3), (UP,), [(3, UP)]),
        (INFERENCE, ("module", 1, "Net"), ("layers.0.mlp", UP), [(1, "layers.0.mlp")]),
        (INFERENCE, ("module", 0), ("Net",), []),
        (INFERENCE, ("optimizer", 0), ("layers.1.norm",), [(number, "layers.1.norm") for number in (1, 2, 3)]),
        (TRAINING.replace("lambda: True", "lambda: False"), ("optimizer", 0), ("Net", "optimizer step"), []),
    ],
)  # fmt: skip
def test_chosen_parts_are_marked_in_their_step_alone(
    torch: Torch, text: str, step: tuple[Any, ...], units: tuple[str, ...], found: list[tuple[int, str]]
) -> None:
    by, number, *module = step
    assert under_marks(torch, Marked(number, by, units, "nvtx", *module), text) == found


@pytest.mark.torch
def test_only_outermost_calls_of_optimizers_count_also_those_that_fail(torch: Torch) -> None:
    text = f"""{CHOOSING}{NET}
class Fails(torch.optim.SGD):
    def step(self):
        super().step()
        raise ValueError("mine")
class Outer(torch.optim.SGD):
    def step(self):
        inner.step()
inner, fails, outer = (kind(net.parameters()) for kind in (torch.optim.SGD, Fails, Outer))
for optimizer in (outer, fails, outer, inner):
    try:
        net(x)
        optimizer.step()
    except ValueError as error:
        print(error)
"""
    for number in range(4):
        parts = Marked(number, "optimizer", ("Net", "optimizer step"), "nvtx")
        assert under_marks(torch, parts, text) == [(number + 1, "Net"), (number + 1, "")]


@pytest.mark.torch
def test_what_is_compiled_is_the_same_and_its_outermost_parts_are_marked(torch: Torch) -> None:
    text = f"""{CHOOSING}{NET}
import logging
logging.disable(logging.WARNING)  # that ranges are not in what is compiled, with the time
from torch._dynamo.utils import counters
optimizer = torch.optim.SGD(net.parameters(), foreach=False)
other = torch.optim.SGD(net.parameters(), foreach=False)
net = torch.compile(net, backend="eager", fullgraph=True)
step = torch.compile(other.step, backend="eager")
for _ in range(3):
    net(x)["out"].sum().backward()
    optimizer.step()
    step()
print(counters["stats"], counters["graph_break"], counters["frames"])
"""
    parts = Marked(1, "optimizer", ("Net", "Net (backward)", UP, "optimizer step"), "nvtx")
    # A compiled module is called in a wrapper, which has its name. A compiled step opens no range and does not count.
    first, *backward, last = under_marks(torch, parts, text)
    assert (first, set(backward), last) == ((3, "Net"), {(4, "Net (backward)")}, (4, ""))


CUDART = """
class Cudart:
    def cudaProfilerStart(self):
        print("start")
        return CODE
    def cudaProfilerStop(self):
        print("stop")
        return 0
torch.cuda.cudart = Cudart
class Works(nn.Linear):
    def forward(self, x):
        print("works")
        return super().forward(x)
net = nn.Sequential(Works(8, 8), nn.Sequential(Works(8, 8)), Works(8, 8))
for _ in range(2):
    net(x)
"""


@pytest.mark.torch
def test_cudas_profiler_starts_and_stops_around_chosen_parts(torch: Torch) -> None:
    (torch.folder / "mark.json").write_text(marks_text(Marked(2, "module", ("1", "1.0", "2"), "profiler")))
    done = torch.alone(CHOOSING + NET + CUDART.replace("CODE", "0"))
    assert done.stdout.split() == ["works"] * 4 + ["start", "works", "stop", "start", "works", "stop"]
    assert MARK not in done.names


@pytest.mark.torch
def test_a_failure_of_cudas_profiler_is_told_once_and_the_program_goes_on(torch: Torch) -> None:
    (torch.folder / "mark.json").write_text(marks_text(Marked(1, "module", ("1", "2"), "profiler")))
    done = torch.run(CHOOSING + NET + CUDART.replace("CODE", "3"))
    assert done.stdout.split() == ["works", "start", *["works"] * 5]
    assert done.stderr.count("gpuprof: ") == 1 and "cudaProfilerStart returned 3" in done.stderr


@pytest.mark.torch
def test_a_process_marks_by_the_file_that_its_environment_names_and_goes_on_without_it(tmp_path: Path) -> None:
    program = f"{NET}\ntorch.cuda.is_initialized = lambda: True\nnet(x)"
    (tmp_path / "script.py").write_text(program)
    parts = Marked(1, "module", ("layers.1",), "nvtx")
    place = tmp_path / "mark.json"
    place.write_text(marks_text(parts))
    environ = {**annotated({**PLAIN_TORCH, "GPUPROF_RANGES_TO": RANGES}), **marking(place)}
    for says in ("", "gpuprof: what was chosen is not marked: JSONDecodeError"):
        (tmp_path / RANGES).write_text("")
        done = run_torch([*QUIET, "script.py"], tmp_path, environ)
        ranges = (tmp_path / RANGES).read_text()
        assert done.stderr.startswith(says) and bool(done.stderr) == bool(says)
        assert ranges.count(f"+ {MARK}") == (0 if says else 1) and ranges.count("+ layers.1.mlp") == 3
        (tmp_path / "mark.json").write_text("no JSON")


# From ranges to labels


@each_row(
    ("written", "read"),
    [
        ("aten::addmm, seq = 12, op_id = 7, sizes = [[11008], [4096, 4096], [4096, 11008], [], []], "
         "input_op_ids = [(5,0), (6,0)]", "aten::addmm [4096, 4096]×[4096, 11008]"),
        ("aten::add_, seq = 5, op_id = 9, sizes = [[8, 2], [8, 2], []]", "aten::add_ [8, 2], [8, 2]"),
        ("aten::cat, op_id = 1, sizes = [[1], [2], [3], [4]]", "aten::cat [1], [2], [3], …"),
        ("aten::item, op_id = 4, sizes = [[]]", "aten::item"),
        ("AddmmBackward0, seq = 12, op_id = 40", "AddmmBackward0"),
        ("step, sequence = 5", "step, sequence = 5"),
        ("step, seq = many", "step, seq = many"),
    ],
)  # fmt: skip
def test_ranges_of_torch_lose_their_counters_and_show_shapes(written: str, read: str) -> None:
    assert readable_range(written) == read


NODE = ("autograd::engine::evaluate_function: MmBackward0", "layers.3.up (backward)", "MmBackward0")


@each_row(
    ("ranges", "label"),
    [
        (("Net", "layers.3", "layers.3.up", "aten::linear [2]", "aten::addmm [2, 3]×[3, 4]"),
         "layers.3.up · aten::addmm [2, 3]×[3, 4]"),
        ((*NODE, "aten::mm [2, 3]×[3, 4]"), "layers.3.up (backward) · aten::mm [2, 3]×[3, 4]"),
        ((*NODE[::2], "aten::mm"), "MmBackward0 · aten::mm"),
        (("epoch", "Optimizer.step#AdamW.step", "aten::_foreach_add_"),
         "Optimizer.step#AdamW.step · aten::_foreach_add_"),
        (("aten::fill_ [4]",), "aten::fill_ [4]"),
        (("aten::sort [4]", "CCCL:cub::DeviceRadixSort"), "aten::sort [4]"),
        (("Net", "## Call CompiledFxGraph fx1 ##", "aten::mm"), "Net · aten::mm"),
        (("Net", "layers.3"), ""),
        ((), ""),
    ],
)  # fmt: skip
def test_a_launch_is_told_by_its_module_and_operator(ranges: tuple[str, ...], label: str) -> None:
    assert launched_by(ranges) == label


@each_row(
    ("ranges", "unit"),
    [
        (("Net", "layers.3", "layers.3.up", "aten::addmm [2, 3]×[3, 4]"), "layers.3.up"),
        ((*NODE, "aten::mm [2, 3]×[3, 4]"), "layers.3.up (backward)"),
        (("epoch 3", "Optimizer.step#AdamW.step", "aten::_foreach_add_"), "optimizer step"),
        (("Optimizer.step#LBFGS.step", "Net", "aten::mm"), "Net"),
        (("Optimizer.zero_grad#AdamW.zero_grad", "aten::zero_"), ""),
        (("Net", "## Call CompiledFxGraph fx1 ##"), "Net"),
        (NODE[::2], ""),
        ((), ""),
    ],
)  # fmt: skip
def test_the_part_to_choose_for_a_launch_is_the_innermost_around_it(ranges: tuple[str, ...], unit: str) -> None:
    assert unit_of(ranges) == unit


def test_kernels_are_labelled_by_what_launched_them() -> None:
    up, down = ("Net", "up", "aten::mm [2, 3]×[3, 4]"), ("Net", "down", "aten::mm [2, 4]×[4, 3]")
    names = ["sgemm", "splitk", "sgemm", "saxpy"]
    assert launch_labels(names, [up, up, down, ("Net",)]) == (
        ("up · aten::mm [2, 3]×[3, 4] · sgemm", "sgemm"),
        ("up · aten::mm [2, 3]×[3, 4] · splitk", "splitk"),
        ("down · aten::mm [2, 4]×[4, 3]", "sgemm"),
        ("saxpy", ""),
    )


# gpuprof.annotate


def test_annotate_is_imported_on_use_and_brings_nothing_heavy(tmp_path: Path) -> None:
    assert "annotate" in gpuprof.__all__
    code = "import sys, gpuprof; before = 'gpuprof.ranges' in sys.modules; gpuprof.annotate('x')\n"
    told = "print(before, [m for m in ('gpuprof.api', 'numpy', 'nvtx') if m in sys.modules])"
    assert run(["-c", code + told], tmp_path, PLAIN).stdout == "False []\n"


TRITONS_AUTOTUNER = """
class Autotuner:
    def _bench(self, config):
        return config * 2
    def run(self):
        return min(self._bench(config) for config in (3, 1, 2))
def do_bench(function):
    return function()
"""
"""As triton/runtime/autotuner.py of Triton 3 is made: each candidate is timed by `_bench`."""


@pytest.mark.torch
def test_what_tritons_autotuner_tries_is_marked_whichever_is_loaded_first(fresh: Torch, torch: Torch) -> None:
    place = fresh.folder / "triton/runtime"
    place.mkdir(parents=True)
    for folder in (place, place.parent):
        (folder / "__init__.py").write_text("")
    (place / "autotuner.py").write_text(TRITONS_AUTOTUNER)
    imports = ["import triton.runtime.autotuner as triton", "import torch"]
    uses = "print(triton.Autotuner().run(), triton.do_bench(lambda: 5), triton.Autotuner._bench.__name__)"
    for python in (fresh, torch):
        marked = python.alone("\n".join([*imports, uses]))
        assert marked.stdout == "2 5 _bench\n"
        assert marked.names == [RANGE] * 3
