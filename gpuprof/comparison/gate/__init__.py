"""Limits that a comparison is held against, and regressions that were accepted in writing."""
