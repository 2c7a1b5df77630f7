"""The HTML page of a comparison: what it says as values, and its rendering by the templates."""
