"""The stacked executor: a whole cohort trained in one batched computation."""
