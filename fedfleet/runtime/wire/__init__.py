"""The wire: the same coordinator fed by real device processes over gRPC. A first skeleton: no TLS, no durability, no pool."""

import os

# gRPC's core would print its own lines beside our one sentence, for instance when a port is taken. It reads this once,
# before anything else of it runs; who wants its lines says so in the environment.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
