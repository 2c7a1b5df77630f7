"""Differences between the circumstances of two runs, and the verdicts that they forbid."""
