"""Samplers that dial heterogeneity: fleets drawn from a base of devices or states."""
