"""Names of earlier releases still work, and say what they are called today."""

import pickle
import sys
import warnings
from dataclasses import dataclass, replace
from importlib import import_module

import pytest

from fedfleet.core.old_names import OLD_MODULES, OLD_SYMBOLS, OldModules, new_place, old_fields
from fedfleet.core.parts import Task
from fedfleet.core.passes import LocalPass
from fedfleet.core.sources import FaultDraws, FaultSource
from fedfleet.world.faults import no_faults, no_slowdown


@pytest.mark.parametrize("old", sorted(OLD_MODULES))
def test_every_old_module_is_found_with_what_it_held(old):
    if not OLD_MODULES[old]:
        return
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {OLD_MODULES[old]}"):
        module = import_module(old)
    today = vars(import_module(OLD_MODULES[old]))
    shared = [name for name in today if not name.startswith("__")]
    assert all(getattr(module, name) is today[name] for name in shared)
    for name, new in OLD_SYMBOLS.get(old, {}).items():
        assert getattr(module, name) is today[new]


def test_a_warning_names_the_line_that_imports():
    sys.modules.pop("fedfleet.learn.averaging", None)
    with pytest.warns(DeprecationWarning, match="fedfleet.learn.averaging is now fedfleet.learn.fedavg") as caught:
        # By its name as a text: tools that follow imports know today's names only.
        fedavg = __import__("fedfleet.learn.averaging", fromlist=["fedavg"]).fedavg
    assert caught[0].filename == __file__
    assert fedavg().name == "fedavg"


def test_modules_below_an_old_package_move_with_it():
    assert new_place("fedfleet.runtime.executors.inline") == "fedfleet.executors.inline"
    assert new_place("fedfleet.runtime.wire.stress.ablation") == "fedfleet.network.stress.ablation"
    assert new_place("fedfleet.runtime") == ""
    assert new_place("fedfleet.runtime.nothing") is None


def test_names_of_today_and_of_nobody_are_not_touched():
    finder = OldModules()
    assert finder.find_spec("fedfleet.core.parts") is None
    assert finder.find_spec("numpy") is None
    with pytest.raises(ModuleNotFoundError):
        import_module("fedfleet.runtime.nothing")
    with pytest.raises(ModuleNotFoundError), pytest.warns(DeprecationWarning, match="averaging"):
        import_module("fedfleet.learn.averaging.nothing")


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("fedfleet.core.tensor_format", "unpacked", "unpack_tree"),
        ("fedfleet.core.passes", "Drift", "ConstantTerm"),
        ("fedfleet.core.passes", "Pull", "ProximalTerm"),
        ("fedfleet.core.sources", "Mishaps", "FaultDraws"),
        ("fedfleet.measure.budget", "cost_to", "cost_to_reach"),
        ("fedfleet.measure.budget", "priced", "cost_curve"),
        ("fedfleet.tasks.synthetic", "made_up", "synthetic_data"),
        ("fedfleet.world.faults", "at_full_speed", "no_slowdown"),
        ("fedfleet.world.faults", "unharmed", "no_faults"),
    ],
)
def test_old_functions_and_classes(module, old, new):
    module = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}") as caught:
        assert getattr(module, old) is getattr(module, new)
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def test_a_fault_source_of_the_last_release():
    with (
        pytest.warns(DeprecationWarning, match=r"FaultSource\(befall=..\) is now draw"),
        pytest.warns(DeprecationWarning, match=r"FaultSource\(slowed=..\) is now slowdown"),
    ):
        faults = FaultSource(slowed=no_slowdown, befall=no_faults)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert faults == FaultSource(no_slowdown, no_faults) == pickle.loads(pickle.dumps(faults))
        assert replace(faults, silences=True).draw is no_faults
    with pytest.warns(DeprecationWarning, match="befall is now draw"):
        assert faults.befall is no_faults
    with pytest.warns(DeprecationWarning, match="befall"):
        assert replace(faults, befall=FaultDraws).draw is FaultDraws


def test_methods_of_the_last_release():
    with pytest.warns(DeprecationWarning, match=r"LocalPass.sent is now sent_names"):
        assert LocalPass.sent.fget(LocalPass(None, None))({"w": 1}) == ["w"]
    assert isinstance(Task.dealt, property)


def test_only_what_is_renamed_is_taken():
    @old_fields(was="now")
    @dataclass(frozen=True, slots=True)
    class Record:
        now: int = 3

    assert Record().now == 3
    assert Record(now=4) == Record(4)
    with pytest.raises(TypeError, match="other"):
        Record(other=1)
