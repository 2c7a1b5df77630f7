"""Statistics and fits. Pure."""
