"""Judging models beside the serving of devices: in a process of its own, and by the devices themselves."""
