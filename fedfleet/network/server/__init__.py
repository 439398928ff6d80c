"""The server's event loop: admission of reports, commits, candidates, offers, recovery."""
