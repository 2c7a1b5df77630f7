"""A measured GPU and the gates of its probes as people read them: terminal, page, JSON, Markdown."""
