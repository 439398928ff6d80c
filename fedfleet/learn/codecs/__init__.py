"""Codecs: what is made small before it travels. `messages` has the verbs, `chain` joins codecs, the rest are families."""
