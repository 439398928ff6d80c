"""An edge: a client of a server, and a server to devices of its own."""
