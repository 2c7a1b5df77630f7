"""Patterns in compiled code: outer products, reductions, local accesses, and the shapes of a warp's accesses."""
