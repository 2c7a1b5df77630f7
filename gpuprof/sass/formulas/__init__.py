"""Registers and addresses as sums of numbers and of symbols for what is not known, and how often loops run by them."""
