"""Executors: jobs in, reports out, in input order."""
