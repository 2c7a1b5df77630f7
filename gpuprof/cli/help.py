"""What help and hints say beside options: what to type first, examples of each command, what was typed."""

from __future__ import annotations

import click

START = (
    ("gpuprof demo", "Try it on recorded kernels. Needs no GPU."),
    ("gpuprof show report.ncu-rep", "Read a report of Nsight Compute."),
    ("gpuprof run -- ./app", "Profile a program on this machine's GPU."),
    ("gpuprof compare a.ncu-rep b.ncu-rep", "Compare two runs or versions."),
    ("gpuprof check kernel.cu", "Review the code of kernels. Needs no GPU."),
)
"""What a new user types, and what it does."""
EXAMPLES = {
    "run": (
        "gpuprof run -- ./app --size 4096",
        "gpuprof run --kernel 'gemm|conv' -- train.py --steps 20",
        "gpuprof run --dry-run -- python -m package.train",
    ),
    "show": (
        "gpuprof show report.ncu-rep",
        "gpuprof show --explain '#0' report.ncu-rep",
        "gpuprof show --format csv report.ncu-rep > kernels.csv",
    ),
    "roofline": (
        "gpuprof roofline report.ncu-rep",
        "gpuprof roofline -o gemm.pdf --kernel gemm report.ncu-rep",
        "gpuprof roofline -- ./app --size 4096",
    ),
    "report": (
        "gpuprof report report.ncu-rep",
        "gpuprof report -o both.html first.ncu-rep second.ncu-rep",
    ),
    "compare": (
        "gpuprof compare base.ncu-rep new.ncu-rep",
        "gpuprof compare base.json new.json --fail-on time:3% --fail-on registers",
        "gpuprof compare --base a.json b.json --new c.json d.json -o page.html",
    ),
    "check": (
        "gpuprof check kernel.cu --arch sm_90 --block 256",
        "gpuprof check --kernel gemm --arg n=4096 kernels.cubin",
        "gpuprof check -o review.md extension.so",
    ),
}
"""Command lines that can be typed, for each command that has files or programs."""


ARGUMENTS = "gpuprof.arguments"
"""Under this name a context keeps the words of the command line, for hints that repeat them."""


class WithExamples(click.Command):
    """A command whose help ends with its examples."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse -- as a value: it ends the options, and one before it has none."""
        rest = super().parse_args(ctx, args)
        for param in () if ctx.resilient_parsing else self.params:
            value = ctx.params.get(param.name or "")
            if isinstance(param, click.Option) and value in ("--", ("--",)):
                name = max(param.opts, key=len)
                raise click.BadOptionUsage(name, f"Option '{name}' requires an argument.", ctx)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print one example a line, unbroken, so that it can be copied."""
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in EXAMPLES[self.name or ""]))
