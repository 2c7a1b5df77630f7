"""How a session is kept: as JSON, written, described by a schema and read back, and packed into a page."""
