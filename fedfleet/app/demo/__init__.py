"""The runs of the demo: three fleets from mild to severe, and the same devices grouped by user."""
