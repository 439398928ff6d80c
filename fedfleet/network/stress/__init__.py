"""The load test: a served run in which nobody trains, under as many clients as wanted, beside gRPC that does nothing else."""
