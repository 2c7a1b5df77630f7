"""`gpuprof` and `python -m gpuprof`: the working folder is left and Ctrl-C looked after before all other imports."""

from gpuprof.working_folder import leave


def main() -> None:
    """Run the command line."""
    leave()

    from gpuprof.cli.interrupt import end_at_once

    end_at_once()

    from gpuprof.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
