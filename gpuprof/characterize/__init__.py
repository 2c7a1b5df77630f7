"""Measures a GPU with micro-kernels: compile, gate by their SASS, time, reduce."""
