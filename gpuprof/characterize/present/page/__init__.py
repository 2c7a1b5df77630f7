"""The HTML sheet of a measured GPU, part by part, as values that templates only have to write down."""
