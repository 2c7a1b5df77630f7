"""`gpuprof` and `python -m gpuprof`: Ctrl-C is looked after before anything else is imported."""

from __future__ import annotations

from gpuprof.cli.interrupt import end_at_once


def main() -> None:
    """Run the command line."""
    end_at_once()

    from gpuprof.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
