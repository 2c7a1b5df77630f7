"""Programs under the injected environment: they behave as without it, and torch's modules are marked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

import gpuprof
from gpuprof.collect.annotate import INJECTED, annotated, surveyed
from gpuprof.model.autotuning import RANGE
from gpuprof.model.labels import MAX_LAUNCH_WIDTH, label_kernels
from gpuprof.model.torch_ranges import launched_by, readable_range
from tests.table import each_row
from tests.torch_programs import (
    NET,
    PLAIN,
    PLAIN_TORCH,
    QUIET,
    Servers,
    run,
    run_torch,
    servers,
)

SEEN = """
import os, sys, warnings
print(__name__, __file__ if "__file__" in globals() else None, __package__, sys.argv, sys.path, os.getcwd())
print(sorted(sys.modules), sys.flags, warnings.filters)
"""


def same_with_and_without(words: list[str], folder: Path, code: int = 0, **extra: str) -> str:
    """Run Python twice, ask for the same output, errors and exit code, and return the output."""
    environ = {**PLAIN, **extra}
    without = run(words, folder, environ, code)
    with_us = run(words, folder, annotated(environ), code)
    assert (with_us.stdout, with_us.stderr) == (without.stdout, without.stderr)
    return with_us.stdout


def test_a_script_sees_what_it_sees_without_us(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SEEN)
    assert str(INJECTED) not in same_with_and_without(["script.py", "--lr", "3"], tmp_path)
    (tmp_path / "elsewhere").mkdir()
    same_with_and_without(["../script.py"], tmp_path / "elsewhere")
    same_with_and_without(["-W", "error", "script.py"], tmp_path)


def test_a_module_of_a_package_runs_with_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("VALUE = 42\n")
    (package / "main.py").write_text(f"from .other import VALUE\nprint(VALUE)\n{SEEN}")
    assert same_with_and_without(["-m", "package.main", "x"], tmp_path).startswith("42\n__main__")


def test_code_on_the_command_line_runs(tmp_path: Path) -> None:
    same_with_and_without(["-c", SEEN, "a"], tmp_path)


@each_row("way", ["spawn", "fork"])
def test_multiprocessing_works_and_its_children_are_clean_too(tmp_path: Path, way: str) -> None:
    (tmp_path / "script.py").write_text(
        f"""
import multiprocessing, sys
def work(number):
    return number * 2, sys.path
if __name__ == "__main__":
    with multiprocessing.get_context("{way}").Pool(2) as pool:
        print(pool.map(work, [1, 2]))
"""
    )
    assert same_with_and_without(["script.py"], tmp_path).startswith("[(2, [")


@each_row(
    ("text", "code"),
    [
        ("import sys\nsys.exit(3)\n", 3),
        ("import sys\nsys.exit('words')\n", 1),
        ("def f():\n    raise ValueError('mine')\nf()\n", 1),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n", -15),
        ("import no_such_module\n", 1),
        ("this is no Python\n", 1),
    ],
)
def test_exits_exceptions_and_signals_are_the_program_s_own(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "script.py").write_text(text)
    same_with_and_without(["script.py"], tmp_path, code)


@each_row("text", ["import sys\nsys.mine = 7\n", "raise RuntimeError('mine')\n", "import absent_one\n"])
def test_the_user_s_sitecustomize_still_runs(tmp_path: Path, text: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(text)
    code = "import sys; print(getattr(sys, 'mine', None), 'sitecustomize' in sys.modules, sys.path)"
    printed = same_with_and_without(["-c", code], tmp_path, PYTHONPATH=str(own))
    assert printed.startswith("7 True" if "7" in text else "None False")


def test_pythonpath_is_kept_and_reaches_grandchildren_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("VALUE = 5\n")
    code = "import mine, sys, subprocess; print(mine.VALUE, sys.path)"
    nested = f"import subprocess, sys, os; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    before = {**PLAIN, "PYTHONPATH": str(tmp_path)}
    assert annotated(before)["PYTHONPATH"] == f"{INJECTED}{os.pathsep}{tmp_path}"
    assert annotated({**PLAIN, "PYTHONPATH": ""})["PYTHONPATH"] == str(INJECTED)
    assert run(["-c", nested], tmp_path, annotated(before)).stdout.startswith("5 [")
    same_with_and_without(["-c", nested], tmp_path, PYTHONPATH=str(tmp_path))


FAKE_TORCH = "import sys\nprint('loading')\n"


def test_a_look_for_torch_does_not_load_it_and_a_later_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    look = "from importlib import util; print(util.find_spec('torch') is not None); import torch; print(torch.__name__)"
    done = run(["-c", look], tmp_path, annotated(PLAIN))
    assert done.stdout == "True\nloading\ntorch\n"
    # What is no real torch cannot be marked: one line says so, and the program goes on.
    assert done.stderr.startswith("gpuprof: kernels get no module names: ") and done.stderr.count("\n") == 1


def test_a_torch_that_is_not_there_or_fails_does_so_as_without_us(tmp_path: Path) -> None:
    absent = "try:\n    import torch_is_absent, torch\nexcept ImportError as error:\n    print(error)\n"
    same_with_and_without(["-c", absent], tmp_path)
    (tmp_path / "torch.py").write_text("raise OSError('no libcudart')\n")
    failing = "try:\n    import torch\nexcept OSError as error:\n    print(error)\n"
    assert same_with_and_without(["-c", failing], tmp_path) == "no libcudart\n"


def test_a_survey_names_its_folder_in_full_keeps_pythonpath_and_goes_before_annotation(tmp_path: Path) -> None:
    environ = surveyed({"PYTHONPATH": "/mine", "HOME": "/root"}, Path("traces"))
    assert environ == {
        "GPUPROF_SURVEY_TO": str(Path.cwd() / "traces"),
        "PYTHONPATH": f"{INJECTED}{os.pathsep}/mine",
        "HOME": "/root",
    }
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    done = run(["-c", "import torch; print(torch.__name__)"], tmp_path, surveyed(annotated(PLAIN), tmp_path))
    assert done.stdout == "loading\ntorch\n"
    assert done.stderr.startswith("gpuprof: the survey does not start: ") and done.stderr.count("\n") == 1


def test_nothing_is_marked_without_the_variable(tmp_path: Path) -> None:
    code = "import sys; print([str(one) for one in sys.meta_path])"
    watched = run(["-c", code], tmp_path, annotated(PLAIN)).stdout
    off = run(["-c", code], tmp_path, {**annotated(PLAIN), "GPUPROF_ANNOTATE": "0"}).stdout
    assert "_Watcher" in watched and "_Watcher" not in off


# With torch

RANGES = "ranges"
MARKED = annotated({**PLAIN_TORCH, "GPUPROF_RANGES_TO": RANGES})
"""Ranges are written to a file in the folder that a program runs in."""
Python = Callable[[Path, bool, int], subprocess.CompletedProcess[str]]
"""Runs the script in a folder, with us or without, and asks for its exit code."""


class Marked(NamedTuple):
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

    def marked(self, text: str) -> Marked:
        """Run a script with and without us, and ask for the same output and errors."""
        without = self.run(text, on=False)
        assert not self._ranges()
        done = self.run(text)
        assert (done.stdout, done.stderr) == (without.stdout, without.stderr)
        return Marked(done.stdout, self._ranges())

    def alone(self, text: str) -> Marked:
        """Run a script with us alone; nothing may be said on stderr."""
        done = self.run(text)
        assert done.stderr == ""
        return Marked(done.stdout, self._ranges())

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


def forked_from(servers: Servers) -> Python:
    """Have scripts run in children of processes that have loaded torch."""
    return lambda folder, on, code: (servers.with_us if on else servers.without).run(folder, code)


@pytest.fixture
def fresh(tmp_path: Path) -> Torch:
    """A Python that is started for each program, and loads torch as any does."""
    return Torch(tmp_path, started)


@pytest.fixture(scope="module")
def with_torch() -> Iterator[Servers]:
    """Processes that have loaded torch, as most programs do."""
    with servers(MARKED, "torch") as both:
        yield both


@pytest.fixture(scope="module")
def with_dynamo() -> Iterator[Servers]:
    """Processes that have also loaded torch.compile, and what its first use loads."""
    with servers(MARKED, "torch", "torch._dynamo", "torch._functorch.aot_autograd") as both:
        yield both


@pytest.fixture
def torch(tmp_path: Path, with_torch: Servers) -> Torch:
    """A Python that has loaded torch."""
    return Torch(tmp_path, forked_from(with_torch))


@pytest.fixture
def dynamo(tmp_path: Path, with_dynamo: Servers) -> Torch:
    """A Python that has also loaded torch.compile, which takes as long as torch itself."""
    return Torch(tmp_path, forked_from(with_dynamo))


BLOCK = ["", ".norm", ".mlp", ".mlp.up", ".mlp.down"]


def test_modules_are_marked_with_their_path(fresh: Torch) -> None:
    marked = fresh.marked(f"{NET}\nwith torch.no_grad():\n    print(net(x)['out'].sum())")
    assert marked.names == ["Net", *(f"layers.{number}{part}" for number in range(2) for part in BLOCK)]
    assert marked.ranges[4] == ("Net", "layers.0", "layers.0.mlp", "layers.0.mlp.up")


def test_annotation_loads_nothing_of_the_survey(torch: Torch) -> None:
    done = torch.run("import sys, torch\nprint(sorted(name for name in sys.modules if name.startswith('_gpuprof')))")
    assert done.stdout == "['_gpuprof_torch_autotuning', '_gpuprof_torch_compiling', '_gpuprof_torch_ranges']\n"


def test_backward_nodes_are_marked_with_the_module_that_made_them(torch: Torch) -> None:
    text = (
        f"{NET}\nloss = nn.MSELoss()(net(x)['out'], x)\nloss.backward()\nprint(net.layers[0].mlp.up.weight.grad.sum())"
    )
    backward = [name for name in torch.names(text) if name.endswith(" (backward)")]
    # A linear layer makes two nodes (its product and the transposition), a block one, for its addition.
    block = {".mlp.down": 2, ".mlp": 1, ".mlp.up": 2, ".norm": 1, "": 1}
    expected = {f"layers.{number}{part} (backward)": nodes for number in range(2) for part, nodes in block.items()}
    assert Counter(backward) == {"MSELoss (backward)": 1, **expected}
    assert backward[0] == "MSELoss (backward)" and backward[-1] == "layers.0.norm (backward)"


def test_steps_after_the_first_are_marked_alike_and_gradients_accumulate(torch: Torch) -> None:
    text = f"{NET}\nfor _ in range(3):\n    net(x)['out'].sum().backward()\nprint(net.layers[0].norm.weight.grad)"
    names = torch.names(text)
    third = len(names) // 3
    assert names[:third] == names[third : 2 * third] == names[2 * third :]


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
    done = torch.run("from torch import nn\nnn.Linear(2, 2)(None)\n", code=1)
    assert done.stderr.rstrip().splitlines()[-1].startswith("TypeError: linear()")


def test_threads_have_ranges_of_their_own(torch: Torch) -> None:
    text = f"""{NET}
import threading
def work():
    with torch.no_grad():
        for _ in range(20):
            net(x)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    marked = torch.marked(text)
    assert Counter(marked.names) == {
        "Net": 80,
        **{f"layers.{number}{part}": 80 for number in range(2) for part in BLOCK},
    }
    assert {stack[0] for stack in marked.ranges} == {"Net"}


def test_checkpointed_modules_are_named_by_their_place_in_the_whole(dynamo: Torch) -> None:
    text = f"""{NET}
from torch.utils.checkpoint import checkpoint
def forward(x):
    return sum(checkpoint(layer, x, use_reentrant=reentrant) for layer in net.layers for reentrant in (False, True))
with torch.no_grad():
    net(x)
forward(x.requires_grad_()).sum().backward()
print(x.grad.sum())
"""
    assert set(dynamo.names(text)) >= {"layers.1.mlp.up", "layers.1.mlp.up (backward)"}


@each_row("what", ["torch.func.vmap(net.layers[0])(x)", "torch.func.jacrev(net.layers[0])(x).sum()"])
def test_function_transforms_work(dynamo: Torch, what: str) -> None:
    assert "layers.0.mlp.up" in dynamo.names(f"{NET}\nnet(x)\nprint({what}.sum())")


def test_a_module_s_output_can_be_changed_in_place(torch: Torch) -> None:
    text = f"{NET}\nout = net.layers[0](x)\nout += 1\nout.relu_()\nout.sum().backward()\nprint(out.sum())"
    assert "mlp.up (backward)" in torch.names(text)


def test_strict_export_works(dynamo: Torch) -> None:
    # With hooks on all modules it fails.
    dynamo.names(f"{NET}\nprint(torch.export.export(nn.Linear(8, 8), (x,), strict=True).graph)")


@each_row(
    "how", ["net = torch.compile(net, backend='eager', fullgraph=True)", "net.compile(fullgraph=True, backend='eager')"]
)
def test_compiled_modules_compile_once_into_the_same_graph(dynamo: Torch, how: str) -> None:
    text = f"""{NET}
from torch._dynamo.utils import counters
{how}
for _ in range(3):
    net(x)['out'].sum().backward()
print(counters["stats"], counters["graph_break"], counters["frames"])
"""
    marked = dynamo.marked(text)
    assert "unique_graphs': 1" in marked.stdout
    assert {name for name in marked.names if "backward" not in name} == {"Net"}


def test_a_graph_break_leaves_what_is_run_without_a_graph_marked(dynamo: Torch) -> None:
    text = f"""{NET}
class Breaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), torch._dynamo.disable(nn.Linear(8, 8))
    def forward(self, x):
        x = self.a(x)
        torch._dynamo.graph_break()
        return self.b(x) + 1
net = torch.compile(Breaking(), backend="eager")
for _ in range(2):
    net(x).sum().backward()
from torch._dynamo.utils import counters
print(counters["stats"])
"""
    assert dynamo.names(text)


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
    assert done.stderr.count("gpuprof: ") == 1 and "kernels get no module names from here on: TypeError" in done.stderr


OBSERVED = """
import sys
from torch.autograd import profiler
ours = sys.modules["_gpuprof_torch_ranges"]
class States:  # this torch has no NVTX; ITT is observed in the same way
    NVTX, KINETO = profiler.ProfilerState.ITT, profiler.ProfilerState.KINETO
profiler.ProfilerState = States
torch.cuda.is_initialized = lambda: True
ours._state.observe = True
ours._give_way_to_profilers()
"""


def test_torch_s_own_profiler_works_beside_the_observed_operators(dynamo: Torch) -> None:
    text = f"""{NET}{OBSERVED}
import threading
net(x)
print(torch.autograd._profiler_enabled())
thread = threading.Thread(target=net, args=(x,))
thread.start()
thread.join()
with torch.profiler.profile() as profile:
    net(x)
print(any("addmm" in event.name for event in profile.events()), torch.autograd._profiler_enabled())
net(x)
"""
    done = dynamo.run(text)
    assert done.stdout == "True\nTrue False\n"
    assert [line for line in done.stderr.splitlines() if not line.startswith("USDT")] == [
        "gpuprof: kernels get no operator names from here on: the program uses torch's profiler itself"
    ]


# From ranges to labels


@each_row(
    ("written", "read"),
    [
        (
            "aten::addmm, seq = 12, op_id = 7, sizes = [[11008], [4096, 4096], [4096, 11008], [], []], "
            "input_op_ids = [(5,0), (6,0)]",
            "aten::addmm [4096, 4096]×[4096, 11008]",
        ),
        ("aten::mm, op_id = 3, sizes = [[2, 3], [3, 4]]", "aten::mm [2, 3]×[3, 4]"),
        ("aten::add_, seq = 5, op_id = 9, sizes = [[8, 2], [8, 2], []]", "aten::add_ [8, 2], [8, 2]"),
        ("aten::cat, op_id = 1, sizes = [[1], [2], [3], [4]]", "aten::cat [1], [2], [3], …"),
        ("aten::item, op_id = 4, sizes = [[]]", "aten::item"),
        ("AddmmBackward0, seq = 12, op_id = 40", "AddmmBackward0"),
        ("step, sequence = 5", "step, sequence = 5"),
        ("step, seq = many", "step, seq = many"),
        ("layers.3.mlp", "layers.3.mlp"),
    ],
)
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


def test_kernels_are_labelled_by_what_launched_them() -> None:
    up, down = ("Net", "up", "aten::mm [2, 3]×[3, 4]"), ("Net", "down", "aten::mm [2, 4]×[4, 3]")
    names = ["sgemm", "splitk", "sgemm", "saxpy"]
    assert label_kernels(names, [up, up, down, ("Net",)]) == (
        "up · aten::mm [2, 3]×[3, 4] · sgemm",
        "up · aten::mm [2, 3]×[3, 4] · splitk",
        "down · aten::mm [2, 4]×[4, 3]",
        "saxpy",
    )


def test_long_and_hostile_ranges_make_labels_that_fit_and_differ() -> None:
    ranges = [(f"layers.{'x' * 200}.{number}", "aten::mm [2]\x1b[31m") for number in range(3)]
    labels = label_kernels(["sgemm"] * 3, ranges)
    assert len(set(labels)) == 3
    assert all(len(label) <= MAX_LAUNCH_WIDTH and label.isprintable() for label in labels)


# gpuprof.annotate

NVTX = "calls = []\npush_range = lambda name: calls.append(name)\npop_range = lambda: calls.append('-')\n"
USES = """
import gpuprof
@gpuprof.annotate("step")
def step(depth):
    "its own words"
    return step(depth - 1) if depth else "done"
with gpuprof.annotate("load"):
    print(step(1), step.__name__, step.__doc__)
try:
    with gpuprof.annotate("bad"):
        raise KeyError
except KeyError:
    pass
"""


def test_user_ranges_are_pushed_and_popped_through_nvtx(tmp_path: Path) -> None:
    (tmp_path / "nvtx.py").write_text(NVTX)
    done = run(["-c", f"{USES}\nimport nvtx\nprint(nvtx.calls)"], tmp_path, PLAIN)
    assert done.stdout == "done step its own words\n['load', 'step', 'step', '-', '-', '-', 'bad', '-']\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="nvtx has no wheel for macOS")
def test_user_ranges_open_through_the_real_nvtx_without_a_gpu(tmp_path: Path) -> None:
    done = run(["-c", f"{USES}\nimport sys\nprint(sys.modules['nvtx'].__spec__.name)"], tmp_path, PLAIN)
    assert (done.stdout, done.stderr) == ("done step its own words\nnvtx\n", "")


def test_user_ranges_do_nothing_where_nvtx_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "nvtx.py").write_text("raise ImportError('not here')\n")
    assert run(["-c", USES], tmp_path, PLAIN).stdout == "done step its own words\n"


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


@each_row("first", ["torch", "triton"])
def test_what_tritons_autotuner_tries_is_marked_whichever_is_loaded_first(fresh: Torch, first: str) -> None:
    place = fresh.folder / "triton/runtime"
    place.mkdir(parents=True)
    for folder in (place, place.parent):
        (folder / "__init__.py").write_text("")
    (place / "autotuner.py").write_text(TRITONS_AUTOTUNER)
    imports = ["import torch", "import triton.runtime.autotuner as triton"]
    order = imports if first == "torch" else imports[::-1]
    text = [*order, "print(triton.Autotuner().run(), triton.do_bench(lambda: 5), triton.Autotuner._bench.__name__)"]
    marked = fresh.alone("\n".join(text))
    assert marked.stdout == "2 5 _bench\n"
    assert marked.names == [RANGE] * 3


def test_what_is_tried_while_torch_compiles_is_marked_too(dynamo: Torch) -> None:
    text = (
        "import torch\n"
        "from torch._inductor.autotune_process import BenchmarkRequest\n"
        "def backend(graph, inputs):\n"
        "    try:\n"
        "        BenchmarkRequest.benchmark(None)\n"
        "    except Exception as error:\n"
        "        print(torch.compiler.is_compiling())\n"
        "    return graph.forward\n"
        "print(torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1)).item())"
    )
    marked = dynamo.marked(text)
    assert marked.stdout == "True\n2.0\n"
    assert marked.names == [RANGE]


def test_inductors_own_methods_are_there_to_be_marked(torch: Torch) -> None:
    """The names are torch's own: this fails where a release calls them otherwise."""
    text = (
        "import torch\n"
        "from torch._inductor.runtime.triton_heuristics import CachingAutotuner as one\n"
        "from torch._inductor.select_algorithm import ExternKernelCaller as two\n"
        "from torch._inductor.autotune_process import TritonBenchmarkRequest as three, BenchmarkRequest as base\n"
        "for f in (one.bench, two.benchmark, three.benchmark, base.benchmark):\n"
        "    print(f.__code__.co_filename.rpartition('/')[2])"
    )
    assert torch.run(text).stdout == "torch_autotuning.py\n" * 4
