"""Readers of public formats: each turns files into arrays, with numpy and the standard library alone."""
