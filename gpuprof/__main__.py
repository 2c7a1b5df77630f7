"""`gpuprof` and `python -m gpuprof`: the working folder is left and Ctrl-C looked after before all other imports."""

import sys

from gpuprof.working_folder import leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command line."""
    leave()

    from gpuprof.cli.interrupt import end_at_once

    end_at_once()

    try:
        from gpuprof.cli.main import main as run
    except ModuleNotFoundError as error:
        _end_without(error)
    run()


def _end_without(error: ModuleNotFoundError) -> "NoReturn":
    """Say which package is missing, as the command line does of those that it imports later."""
    from gpuprof.needed_packages import problem_of

    problem = problem_of(error)
    if problem is None:
        raise error
    sys.stderr.write(f"error: {problem.message}\nhint: {problem.hint}\n")
    sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
