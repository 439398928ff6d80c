"""Making fleets, measuring how hard they are, and solving one user's exchange of samples."""
