"""The measured file, the ceilings in it, and what is normal."""
