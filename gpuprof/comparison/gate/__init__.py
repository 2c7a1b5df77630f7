"""Limits for a comparison, and regressions that a file accepts."""
