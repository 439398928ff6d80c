"""Training with numpy alone: what a device runs that has no PyTorch, and the same in simulation."""
