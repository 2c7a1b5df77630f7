"""Pure functions that diagnose kernels: from counters to findings with causes, fixes and gains."""
