"""Runs programs under Nsight Compute: finds it, plans what to collect, runs it, and says what went wrong."""
