"""Fetching public datasets from their homes."""
