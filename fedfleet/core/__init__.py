"""VOCABULARY: records, events, commands, part types, randomness, trees, cost and interval arithmetic, the registry."""
