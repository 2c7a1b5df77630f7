"""Review of compiled kernels without a GPU: resources, loops, accesses, findings, limits, changes between builds.

In the order of a review (`review.py`):

- `options.py`: the request, from the command line or Python. `contract.py`: the result.
- `inputs/`: the kernels of files of all kinds, not disassembled yet. Their types are in `kernel.py`.
- `parallel.py`: reviews many kernels on all cores. `batch.py`: reviews the kernels of one call of `nvdisasm`.
- `code.py`: one kernel with its instructions, lines, launch and architecture.
- `facts/`: facts of that kernel, each computed once. `code_facts.py` has all of them for the rules.
- `rules/`: one file for each rule; `registry.py` lists them.
- `kernel_review.py`: makes the review of a kernel from its facts. `file_findings.py`: runs the rules on files.
- `build_changes.py`, `limits.py`, `gate.py`: changes against another build, and the limits of `--fail-on`.
"""
