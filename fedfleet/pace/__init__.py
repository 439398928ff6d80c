"""WHEN: policies that decide when to ask, to give up waiting, and to commit."""
