"""The wire: the same coordinator fed by real device processes over gRPC. A first skeleton: no TLS, no durability, no pool."""
