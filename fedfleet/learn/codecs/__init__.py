"""Codecs: what is made small before it travels. `applying` has the verbs, `chaining` joins codecs, the rest are families."""
