"""One data-flow analysis of SASS: the values of registers in a warp, and what follows from them.

`reaching_definitions` and `definition_graph` build the definitions of a kernel. `solver` computes their values, as
`expressions`, by the rules of opcodes (`sum_rules`, `word_rules`); `evaluation` caches them for all warps. From the
`solution` follow `addresses`, `accesses` with their `request_costs`, and `trip_counts`.
"""
