"""What is measured and how it is kept: configurations, what a GPU must be able to do, samples and their reduction."""
