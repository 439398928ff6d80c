"""What a model computes, as data: one description for every engine that trains it."""
