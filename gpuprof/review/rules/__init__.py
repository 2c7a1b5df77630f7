"""What compiled code should have otherwise, by family: one file each, a function from a kernel's code to findings."""
