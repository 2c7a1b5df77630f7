"""Compiled code, read without a GPU.

The modules here are instructions, and what each reads, writes and asks of memory. Folders, in this order: `binary`
reads files that hold code, and line tables; `tools` starts NVIDIA's compilers and disassemblers; `flow` is the
control flow of a kernel; `lanes` follows the numbers in a warp's lanes through it; `formulas` makes what is not known
a sum of symbols, and loops counts; `patterns` finds products, reductions, local accesses and the shapes of accesses.
"""
