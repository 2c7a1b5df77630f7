"""Sentences from values and findings, for every view: the only place that writes them."""
