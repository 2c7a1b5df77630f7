"""Sentences from values and findings, for the terminal, pages, Markdown and JSON: the only place that writes them."""
