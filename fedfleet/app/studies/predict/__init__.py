"""Prediction: what a run will come to, before anything is trained."""
