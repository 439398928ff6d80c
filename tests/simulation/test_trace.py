"""FEDFLEET_TRACE: a line for every fact, outcome and command, on standard error alone."""

from fedfleet.core.records import Stop
from fedfleet.pace.rounds import readiness
from tests.worlds import even_fleet, events_of, toy_plan, world_of


def test_nothing_is_printed_without_being_asked_for(monkeypatch, capsys):
    monkeypatch.delenv("FEDFLEET_TRACE", raising=False)
    events_of(toy_plan(readiness(2), 4, stop=Stop(rounds=1)), world_of(even_fleet(4)))
    assert capsys.readouterr() == ("", "")


def test_facts_and_commands_are_printed_as_they_happen(monkeypatch, capsys):
    monkeypatch.setenv("FEDFLEET_TRACE", "1")
    events, _ = events_of(toy_plan(readiness(12), 40, stop=Stop(rounds=1)), world_of(even_fleet(40)))
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len([line for line in lines if line.startswith("fedfleet: event ")]) == len(events)
    assert "fedfleet: command FindCandidates(wanted=12, at_least=2)" in lines
    assert "fedfleet: command Send(wave=tasks 0-11 of model 0)" in lines
    assert any("CandidatesSeen(time=20.0, roster=40 clients)" in line for line in lines)
    assert all(len(line) < 400 for line in lines)
