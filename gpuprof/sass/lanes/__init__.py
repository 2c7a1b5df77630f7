"""Which addresses the lanes of a warp touch, by the compiled code alone: a data-flow analysis of SASS.

`access` is the way in. `constants` says what a launch makes known; `walk` goes through the code, and `rules` execute
instructions on `values`, which are what is known of a register in all lanes. `effects` says what follows from an
operation alone, `possible` what may be known in any walk, `relevance` what of that matters.
"""
