"""Pair kernels of the two sides: those that the user names, equal ones, then less and less alike ones."""
