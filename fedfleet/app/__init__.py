"""PEOPLE: what users touch, from the command line down to running a spec.

cli        the entry point             verbs     one file per verb of the command line
api        the Python call             pages     HTML pages and their figures
demo       the runs of the demo        runs      running a spec in a folder; replay; the network
fleets     making and measuring fleets machine   measuring this machine
datasets   fetching public data        assemble  from a spec to plan, world and executor
spec       reading and checking specs  terminal  options, answers and progress on a terminal
"""
