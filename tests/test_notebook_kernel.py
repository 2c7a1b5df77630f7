"""`gpuprof.profile` in a real kernel of Jupyter: what cells show, and what interrupting one ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import blocks
from tests.test_python_api import HANGS, PAGE, Place, app, is_running, place, started
from tests.test_run import STANDIN

assert app and place  # fixtures
pytestmark = pytest.mark.slow


def client_of(folder: Path, *cells: str) -> Any:
    """Return what runs a notebook of these cells in a kernel of its own."""
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", resources=resources)


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
