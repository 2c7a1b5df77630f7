"""One data-flow analysis of SASS: the values of registers in a warp, and what follows from them.

`solver` evaluates the definitions of `reaching_definitions` by the `rules` of opcodes, as `expressions`. Addresses,
accesses, their costs and trip counts follow from its solution.
"""
