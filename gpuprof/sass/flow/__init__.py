"""The control flow of a kernel: basic blocks, dominators, loops, and reconvergence."""
