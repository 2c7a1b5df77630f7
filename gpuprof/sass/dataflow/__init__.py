"""One data-flow analysis of SASS: the values of registers in a warp, and what follows from them.

`solver` has the definitions of `reaching_definitions` evaluated by the rules of opcodes, as `expressions`; all warps of
a kernel share what is known in `evaluation`. Addresses, accesses, their costs and trip counts follow from a solution.
"""
