"""Timelines: when each GPU worked, on what, and why it paused."""
