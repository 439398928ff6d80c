"""PEOPLE: what users touch, from the command line down to running a spec.

cli        the command line: its entry point, and the table of verbs, each a call of api
api        the Python calls: what a verb does, and what it answers
pages      HTML pages and their figures          dashboard  the pages of runs that go on, served
studies    grids of runs, comparison, search, prediction
demo       the runs of the demo                  runs       running a spec in a folder; replay; the network
fleets     making and measuring fleets           machine    measuring this machine
datasets   public data, and data of one's own    tracking   runs in other tools
assemble   from a spec to plan, world and executor
spec       reading and checking specs            terminal   answers, units and progress on a terminal
"""
