"""Output for machines: JSON and CSV of every product, and problems as JUnit, SARIF, GitHub and GitLab take them."""
