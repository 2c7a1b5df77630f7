"""Compiled code, read without a GPU.

Modules: `instruction` parses instructions; `operands` returns the registers that one reads and writes; `requests`, its
memory requests; `straight_line`, its operands' writers in straight-line code.

Folders, each of which may import those before it:

- `binary` reads files that contain code, and line tables.
- `tools` starts NVIDIA's compilers and disassemblers.
- `flow` builds the control-flow graph of a kernel.
- `dataflow` computes the values of registers in a warp. Addresses, memory accesses and trip counts follow from them.
- `patterns` finds matrix products, reductions, accesses to local memory and the shapes of accesses.
"""
