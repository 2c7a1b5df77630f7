"""How long libstdc++ takes to compile the expressions by which kernels are chosen: ncu does it anew for every launch.

    python -m benchmarks.name_expressions

Needs g++. Prints, for plans of several sizes drawn from the real names in tests/data, the length of the expression, the
best of 20 compilations, that time for each 2 kB, and the same with a class of characters before each number, as one may
write a cast: `([(][a-z ]+[)])?`.
"""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from pathlib import Path

from gpuprof.collect.name_filter import by_name
from tests.kernel_name_corpus import of_libraries

_SOURCE = Path(__file__).parents[1] / "tests/std_regex.cpp"
_RUNS = 20
_CLASS = "([(][a-z ]+[)])?"
_CAST = re.compile(r"\(\.(?:unsigned )?(?:int|long|long long)\.\)\?")


def main() -> None:
    """Build the program, and print a row for each size of plan."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "std_regex"
        subprocess.run(["g++", "-O2", str(_SOURCE), "-o", str(program)], check=True)
        names = [kernel.library for kernel in of_libraries() if not kernel.library.startswith("_Z")]
        print("kernels  characters   compiled  for 2 kB  with classes")
        for number in (5, 20, 60, 200):
            chosen = random.Random(number).sample(names, number)
            expression = by_name(chosen, others=[name for name in names if name not in chosen]).expression
            plain = _microseconds(program, expression)
            classes = _microseconds(program, _CAST.sub(lambda _: _CLASS, expression))
            for_2_kb = plain / (len(expression) / 2048)
            row = f"{number:7}  {len(expression):10}  {plain:6.0f} µs  {for_2_kb:5.0f} µs  {classes / plain:6.1f} times"
            print(row)


def _microseconds(program: Path, expression: str) -> float:
    done = subprocess.run([program, str(_RUNS)], input=f"E {expression}\n", capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
