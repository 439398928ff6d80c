"""An emulated fleet on one machine: each device is a process, forked from one template, under its own limits."""
