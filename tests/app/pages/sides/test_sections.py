"""How to check a comparison."""

import shlex
from pathlib import Path

from fedfleet.app.pages.sides.sections import check_section, commands_for, differences


def test_few_runs_stand_beside_each_other_and_many_as_values():
    few = differences(["a", "b"], {"pace.use": ["deadline", None]})
    assert 'data-h="a"' in few and ">none<" in few
    many = differences([str(i) for i in range(9)], {"seed": list(range(9))})
    assert "0, 1, 2, 3, 4, 5, 6, 7 and 1 more" in many


def test_everything_is_escaped():
    page = check_section(["<a>", "b"], {"k<": ["<v>", 1]}, [("<run>", "12ab")], ["fedfleet replay '<x>'"])
    assert "<v>" not in page and "<run>" not in page and "<x>" not in page and "12ab" in page


def test_commands_name_the_runs():
    said = "\n".join(commands_for([Path("r/a"), Path("r/b")]))
    assert "fedfleet replay r/a" in said and "fedfleet compare r/a r/b mine" in said
    spaced = commands_for([Path("my runs/a"), Path("my runs/b")])
    assert [shlex.split(line)[2] for line in spaced] == ["my runs/a", "my runs/a", "my runs/a/spec.toml", "my runs/a"]
