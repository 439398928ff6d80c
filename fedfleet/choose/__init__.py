"""WHO: selectors."""
