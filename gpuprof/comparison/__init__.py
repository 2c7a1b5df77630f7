"""Two runs of a program, or two versions of it: what changed, why, and whether a gate lets it pass.

In the order in which a comparison is made (`compare.py`):

- `contract.py`: the result; `words.py`: how its values and changes are written.
- `sides.py`: the runs of a side, and its kernels over all of them.
- `conditions/`: what is not alike around the runs, and which verdict that forbids.
- `matching/`: which kernels belong together; `pair.py`: such a pair.
- `timing/` and `work/`: the two verdicts on a pair; `timing/totals.py`: those on the whole run.
- `lines.py`, `finding_changes.py`: source lines and findings that changed.
- `causes/`: why the time changed.
- `sentences.py`, `notes.py`, `labels.py`: the verdicts in words, and what else is to be known.
- `looks.py`: when two programs that are measured in turns have been measured enough.
- `selection.py`: the kernels that are asked for; `gate/`: limits that all of it is held against.
"""
