"""`gpuprof doctor`: everything that collecting needs, checked, with the fix for what is missing."""

from __future__ import annotations

import json
import os

import click

from gpuprof.cli.options import as_text_or_json


@click.command("doctor")
@as_text_or_json("Output format.")
def command(form: str) -> int:
    """Check what profiling needs: driver, GPU, ncu, permission to read counters, other tools, folders, packages.

    Exit code 3 if something prevents profiling. Reading reports needs none of this.
    """
    from gpuprof.collect.doctor import PROBLEM, examine

    checks = examine(os.environ)
    problems = [check for check in checks if check.state == PROBLEM]
    if form == "json":
        rows = [{"name": check.name, "state": check.state, "found": check.result, "fix": check.fix} for check in checks]
        click.echo(json.dumps({"checks": rows}, allow_nan=False))
    else:
        from gpuprof.views.doctor import doctor_view
        from gpuprof.views.terminal import make_console, print_document

        print_document(make_console(), doctor_view(checks))
    return 3 if problems else 0
