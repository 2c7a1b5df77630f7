"""Runs the writer of this tree on the code of another commit, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def write_with(revision: str, work: Path, arguments: list[str]) -> None:
    """Run `python -m benchmarks.golden` with `arguments` on gpuprof as it is in `revision`.

    `work` is an empty folder, for a checkout of the revision and its environment. Raises CalledProcessError if git,
    pip or the writer fails.
    """
    checkout, environment, writer = work / "checkout", work / "environment", work / "writer"
    subprocess.run(["git", "-C", str(_ROOT), "worktree", "add", "--detach", str(checkout), revision], check=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = str(environment / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if (checkout / "lock-dev.txt").exists():
            subprocess.run([*pip, "--require-hashes", "--requirement", str(checkout / "lock-dev.txt")], check=True)
        subprocess.run([*pip, "--constraint", str(checkout / "constraints.txt"), f"{checkout}[check]"], check=True)
        (writer / "benchmarks").mkdir(parents=True)
        (writer / "benchmarks" / "golden").symlink_to(_ROOT / "benchmarks" / "golden")
        command = [python, "-m", "benchmarks.golden", *arguments]
        subprocess.run(command, check=True, cwd=writer)
    finally:
        subprocess.run(["git", "-C", str(_ROOT), "worktree", "remove", "--force", str(checkout)], check=True)
