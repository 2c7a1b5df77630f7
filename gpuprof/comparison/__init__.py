"""Compare two runs of a program, or two versions of it: changes, their causes, and a gate for CI.

In the order in which a comparison is made (`compare.py`):

- `contract.py`: the result, as values; `gpuprof/words/` adds its sentences.
- `values.py`: a value on both sides.
- `sides.py`: the runs of a side, and its kernels over all of them.
- `conditions/`: differences between the circumstances of the runs, and the verdicts that they forbid.
- `matching/`: which kernels belong together; `pair.py`: such a pair.
- `timing/` and `work/`: the two verdicts on a pair; `timing/totals.py`: those on the whole run.
- `lines.py`, `finding_changes.py`: source lines and findings that changed.
- `causes/`: why the time changed.
- `labels.py`: unique names of kernels.
- `sequential_test.py`: when two programs that are measured in turns have been measured enough.
- `selection.py`: the kernels of --kernel and --exclude; `gate/`: limits, and whether they are kept.
"""
