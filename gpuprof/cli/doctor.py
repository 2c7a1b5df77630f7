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
        from gpuprof.present.console_parts import Sheet, make_console

        sheet, width = Sheet.of(make_console()), max(len(check.name) for check in checks)
        margin = len(f"{'':7}  {'':{width}}  ")
        for check in checks:
            lines = sheet.hung(f"{check.state:7}  {check.name:{width}}  {check.result}", margin)
            lines += sheet.hung(f"{'':{margin}}fix: {check.fix}", margin) if check.fix else []
            click.echo("\n".join(lines))
        click.echo(f"{len(problems)} of {len(checks)} checks found a problem" if problems else "no problems found")
    return 3 if problems else 0
