"""Sessions in, text and pictures out. Decides nothing: every number comes from the model."""
