"""Review of compiled kernels without a GPU: resources, loops, accesses, findings, limits, changes between builds.

In the order of a review (`review.py`):

- `options.py`: a request, from the command line or Python; `contract.py`: the result.
- `inputs/`: the kernels of files of all kinds, not disassembled yet (`kernel.py`).
- `batches.py`: reviews many kernels on all cores; `slices.py`: those of one call of `nvdisasm`.
- `code.py`: one kernel with its instructions, lines, launch and architecture.
- `facts/`: facts of that kernel, each worked out once; `code_facts.py` has all of them for the rules.
- `rules/`: one file each, listed in `registry.py`; `reviewed.py` runs them on a kernel, `file_findings.py` on files.
- `build_changes.py`, `limits.py`, `gate.py`: changes against another build, and limits.
"""
