"""TRAINS: models and datasets, the home of torch beside learn and the executors."""
