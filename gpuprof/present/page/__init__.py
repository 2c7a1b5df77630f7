"""What the HTML page says, as values for its template: one module for each part of the page."""
