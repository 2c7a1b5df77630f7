"""Pair kernels of the two sides: named ones, equal ones, then less and less alike ones."""
