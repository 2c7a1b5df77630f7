"""Probes compiled and disassembled, and the gate that their instructions must pass."""
