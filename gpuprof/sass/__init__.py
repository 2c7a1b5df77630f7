"""Compiled code, read without a GPU.

The modules here are instructions, what each reads, writes and asks of memory, and values in straight code. Folders, in
this order: `binary` reads files that hold code, and line tables; `tools` starts NVIDIA's compilers and disassemblers;
`flow` is the control flow of a kernel; `dataflow` finds the values of registers in a warp, and by these addresses,
accesses and trip counts; `patterns` finds products, reductions, local accesses and the shapes of accesses.
"""
