"""What is not alike around two runs, and which verdict that forbids."""
