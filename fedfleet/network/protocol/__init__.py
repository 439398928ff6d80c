"""The protocol: messages between devices and server, and between the server's own processes, as bytes."""
