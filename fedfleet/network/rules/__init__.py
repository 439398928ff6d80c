"""The rules of the server's desk, without sockets, threads, clocks or files: whoever calls says what time it is."""
