"""Two runs of a program, or two versions of it: what changed, why, and whether a gate lets it pass.

In the order in which a comparison is made (`compare.py`):

- `contract.py`: the result, as values; `gpuprof/words/` adds its sentences. `values.py`: a value on both sides.
- `sides.py`: the runs of a side, and its kernels over all of them.
- `conditions/`: differences between the circumstances of the runs, and the verdicts that they forbid.
- `matching/`: which kernels belong together; `pair.py`: such a pair.
- `timing/` and `work/`: the two verdicts on a pair; `timing/totals.py`: those on the whole run.
- `lines.py`, `finding_changes.py`: source lines and findings that changed.
- `causes/`: why the time changed.
- `facts.py`, `labels.py`: what else is to be known, and unique names.
- `sequential_test.py`: when two programs that are measured in turns have been measured enough.
- `selection.py`: the kernels that are asked for; `gate/`: limits, and whether they are kept.
"""
