"""What edges do in their turn: averages of their devices (HierFL), devices chosen to match the world's labels (FedGS)."""
