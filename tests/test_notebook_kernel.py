"""`gpuprof.profile` in a real kernel of Jupyter: what cells show, and what interrupting one ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import blocks
from tests.test_python_api import HANGS, PAGE, Place, app, is_running, place, started
from tests.test_run import STANDIN

nbformat = pytest.importorskip("nbformat", reason="nbclient and ipykernel run notebooks")
nbclient = pytest.importorskip("nbclient", reason="nbclient and ipykernel run notebooks")
pytest.importorskip("ipykernel", reason="nbclient and ipykernel run notebooks")
assert app and place  # fixtures
pytestmark = pytest.mark.slow

CALL = f"import sys, gpuprof\nsession = gpuprof.profile({{program}}, 'out', ncu={str(STANDIN)!r}{{more}})\n"


def client_of(folder: Path, *cells: str) -> Any:
    """Return what runs a notebook of these cells in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", resources=resources)


def cell_of(*program: str, more: str = "") -> str:
    """Return a cell that profiles a program."""
    return CALL.format(program=list(program), more=more)


def shown(notebook: Any, number: int) -> str:
    """Return all that a cell shows as text."""
    outputs = notebook.cells[number].outputs
    return "".join(output.get("text", "") or str(output.get("data", {}).get("text/plain", "")) for output in outputs)


def test_the_cells_of_the_page_run_and_the_session_shows_itself(app: Place) -> None:
    app.steps(*[{"report": app.report}] * 2)  # a GPU is what the program would need
    written, profiled = client_of(app.folder, *blocks(PAGE, "ipython")).execute().cells
    assert "Writing step.py" in written.outputs[0].text
    assert (app.folder / "step.py").read_text().startswith("import torch\n")
    assert app.calls[0][-1] == "step.py"
    (output,) = profiled.outputs
    assert "saxpy" in output.data["text/html"] and "NVIDIA A100" in output.data["text/html"]


def test_what_the_program_prints_is_in_the_cell_which_can_await_it(place: Place) -> None:
    place.steps(*[{"report": place.report, "program": True}] * 6)
    printing = cell_of("sh", "-c", "echo from the program; echo its error >&2", more=", output=sys.stdout.write")
    much = cell_of("sh", "-c", "yes error | head -c 600000 >&2", more=", overwrite=True")
    awaited = (
        f"import asyncio\nwork = asyncio.to_thread(gpuprof.profile, ['true'], ncu={str(STANDIN)!r})\n"
        "print(len((await work).kernels))"
    )
    notebook = client_of(place.folder, printing, much, awaited).execute()
    assert sorted(shown(notebook, 0).splitlines()) == ["from the program", "its error"]
    # Much on stderr neither blocks nor is lost.
    assert shown(notebook, 1).count("error") == 100_000
    assert shown(notebook, 2) == "2\n"


INTERRUPTED = f"""
import signal, gpuprof, gpuprof.errors
before = signal.getsignal(signal.SIGINT)
try:
    gpuprof.profile(["sh", "-c", "test -e again && {{ {HANGS[2]}; }}; touch again"], "out", ncu={str(STANDIN)!r})
except gpuprof.errors.Interrupted as error:
    print(len(error.session.kernels))
"""


def test_interrupting_a_cell_ends_the_program_and_not_the_kernel(place: Place) -> None:
    place.steps({"report": place.report, "program": True}, {"program": True})
    client = client_of(place.folder, INTERRUPTED, "print(signal.getsignal(signal.SIGINT) is before)")
    first, second = client.nb.cells

    async def interrupted() -> None:
        async with client.async_setup_kernel():
            running = asyncio.create_task(client.async_execute_cell(first, 0))
            while not started(place):
                assert not running.done()
                await asyncio.sleep(0.05)
            await client.km.interrupt_kernel()
            await running
            await client.async_execute_cell(second, 1)

    asyncio.run(asyncio.wait_for(interrupted(), 60))
    assert shown(client.nb, 0).endswith("2\n")
    assert shown(client.nb, 1) == "True\n"
    assert not is_running(place.folder / "pid") and not is_running(place.folder / "detached")
