"""Terminal, page and Markdown of `gpuprof check`. Decides nothing: every number comes from the review."""
