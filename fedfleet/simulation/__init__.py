"""ACTS in virtual time: the simulator, its checkpoints, and the audit that derives a run again."""
