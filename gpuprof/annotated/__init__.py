"""The code of a kernel with its counts: instructions, lines, excerpts and the complete listing."""
