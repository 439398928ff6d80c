"""Measuring the machine that we run on: how fast it trains, and what kind of device it is."""
