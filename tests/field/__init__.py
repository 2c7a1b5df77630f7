"""Tests on reports of other people's programs, which the repository does not hold."""
