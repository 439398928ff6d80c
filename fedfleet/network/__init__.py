"""The wire: the same coordinator fed by real device processes over gRPC."""

import logging
import os
import sys

# gRPC's core would print its own lines beside our one sentence, for instance when a port is taken. It reads this once,
# before anything else of it runs; who wants its lines says so in the environment.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# gRPC for Python cannot be told the least version of TLS. But it can be told the ciphers of TLS 1.2, once, before it is loaded,
# and the only one that we name needs a key that both sides shared before, which neither has: so 1.2 always fails, and 1.3
# remains, whose ciphers are not chosen so. `security.tls` refuses to work where somebody loaded gRPC first.
_NO_TLS_1_2 = ("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305")
ONLY_TLS_1_3 = os.environ.get(_NO_TLS_1_2[0]) == _NO_TLS_1_2[1] or "grpc._cython.cygrpc" not in sys.modules
os.environ[_NO_TLS_1_2[0]] = _NO_TLS_1_2[1]

# gRPC logs text that is not UTF-8 with a traceback, and Python shows what nobody handles on the terminal: a damaged line would fill
# it. Programs that handle logging get these records as before.
logging.getLogger("grpc._cython.cygrpc").addHandler(logging.NullHandler())
