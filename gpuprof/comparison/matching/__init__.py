"""Which kernels of the two sides belong together: what the user names, what is equal, then what is less alike."""
