"""The Monte-Carlo metrics of FLHetBench: how hard is this fleet, before anyone trains on it?"""
