"""Instructions as nvdisasm prints them, and what each reads, writes and asks of memory."""
