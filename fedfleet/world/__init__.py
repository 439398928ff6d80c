"""WHERE: devices, states and data of a fleet, as sources."""
