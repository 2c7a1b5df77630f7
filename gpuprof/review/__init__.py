"""Compiled kernels, reviewed without a GPU: what their code says of resources, loops, memory and costly habits.

In the order in which a review is made (`review.py`):

- `contract.py`: the result.
- `inputs/`: files of all kinds into kernels, not disassembled as yet (`kernel.py`).
- `batches.py`: disassembling and reviewing many kernels on all cores, with progress.
- `slices.py`: how these are cut for `nvdisasm`.
- `code.py`: what is known of one kernel: its instructions, lines, launch and architecture.
- `loops.py`, `memory.py`, `strides.py`, `resources.py`: how it loops, what its accesses touch, what it takes.
- `sequences.py`, `divergence.py`: operations that no instruction does, and branches that depend on the thread;
  `body.py`, `dependents.py`: what these look around with.
- `case.py`: all of that together, for the rules.
- `rules/`: what should be changed; `registry.py` names all rules; `reviewed.py` puts one kernel together.
"""
