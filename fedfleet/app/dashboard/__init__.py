"""The dashboard: a local page on the journals, live while runs go on."""
