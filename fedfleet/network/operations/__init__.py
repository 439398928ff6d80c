"""For whoever keeps a server running: figures, metrics, health, logs, the live line, status, and how it stops."""
