"""What builders are told about the run that the tests of this folder make."""

from fedfleet.core.part_facts import RunFacts

FACTS = RunFacts(clients=8, seed=3, rounds=4)
