"""The Python calls, as `fedfleet.run` and the like: what a verb does, from a notebook or a script. Verbs call them too."""
