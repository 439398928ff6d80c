"""Training with MNN, an engine for phones: the same described models, whose gradients MNN computes."""
