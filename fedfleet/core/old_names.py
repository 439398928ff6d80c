"""Names of earlier releases: they work for one more release, and each use is a DeprecationWarning that says the new name.

Three kinds of name can be old: a module's (a finder on `sys.meta_path`, installed with the package), a function's or class's
(`old_symbols`), and a record's field or method (`old_fields`). Delete an entry to end its time.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

Record = TypeVar("Record", bound=type)

# Old module -> its place today. Modules below an entry move with it.
OLD_MODULES = {
    "fedfleet.app.comparing": "fedfleet.app.studies.compare",
    "fedfleet.app.datasets.user_data": "fedfleet.tasks.user_data.samples",
    "fedfleet.app.fleets.sampling": "fedfleet.app.fleets.fleet_samples",
    "fedfleet.app.predicting": "fedfleet.app.studies.predict",
    "fedfleet.app.predicting.predicting": "fedfleet.app.studies.predict.prediction",
    "fedfleet.app.predicting.reference": "fedfleet.app.studies.predict.reference_runs",
    "fedfleet.app.spec.describe": "fedfleet.app.spec.parameter_text",
    "fedfleet.app.studies.joining": "fedfleet.app.studies.grid.joint_jobs",
    "fedfleet.core.charging": "fedfleet.core.cost",
    "fedfleet.core.coding": "fedfleet.core.codec",
    "fedfleet.core.folding": "fedfleet.core.aggregation",
    "fedfleet.core.labels": "fedfleet.core.part_facts",
    "fedfleet.core.meeting": "fedfleet.core.quorum",
    "fedfleet.core.sharing": "fedfleet.core.shared_rows",
    "fedfleet.core.spending": "fedfleet.core.stages",
    "fedfleet.engine.nested": "fedfleet.engine.hierarchy",
    "fedfleet.learn.averaging": "fedfleet.learn.fedavg",
    "fedfleet.learn.codecs.count_sketch": "fedfleet.learn.codecs.sparsification",
    "fedfleet.learn.compose": "fedfleet.learn.composition",
    "fedfleet.learn.home": "fedfleet.learn.local_parameters",
    "fedfleet.learn.personal": "fedfleet.learn.personalisation",
    "fedfleet.learn.private": "fedfleet.learn.differential_privacy",
    "fedfleet.learn.robust": "fedfleet.learn.folds",
    "fedfleet.learn.servers": "fedfleet.learn.server_optimisers",
    "fedfleet.learn.terms": "fedfleet.learn.objectives",
    "fedfleet.measure.clock": "fedfleet.measure.class_clock",
    "fedfleet.measure.curve": "fedfleet.measure.accuracy",
    "fedfleet.measure.energy": "fedfleet.measure.costs",
    "fedfleet.measure.learning": "fedfleet.measure.accuracy",
    "fedfleet.measure.traffic": "fedfleet.measure.costs",
    "fedfleet.runtime": "",
    "fedfleet.runtime.dry": "fedfleet.simulation.dry_run",
    "fedfleet.runtime.executors": "fedfleet.executors",
    "fedfleet.runtime.executors.naive": "fedfleet.executors.bench",
    "fedfleet.runtime.journal": "fedfleet.store.journal",
    "fedfleet.runtime.processes": "fedfleet.executors.worker_pool",
    "fedfleet.runtime.seals": "fedfleet.store.seals",
    "fedfleet.runtime.simulate": "fedfleet.simulation.simulator",
    "fedfleet.runtime.wire": "fedfleet.network",
    "fedfleet.runtime.wire.fleet_pb2": "fedfleet.network.protocol.fleet_pb2",
    "fedfleet.runtime.wire.framing": "fedfleet.network.protocol.frames",
    "fedfleet.runtime.wire.options": "fedfleet.network.server.options",
    "fedfleet.tasks.narrowing": "fedfleet.tasks.narrow_models",
    "fedfleet.tasks.sources": "fedfleet.tasks.data_files",
    "fedfleet.tasks.transfer": "fedfleet.tasks.photos",
    "fedfleet.world.downtime": "fedfleet.world.faults",
}
# Old module -> what its functions and classes are called in the new one, where that differs.
OLD_SYMBOLS = {
    "fedfleet.app.studies.joining": {"groups": "joint_groups", "perform_joined": "perform_together"},
    "fedfleet.core.charging": {"derived": "derive_cost"},
    "fedfleet.core.spending": {"staged": "source_from_stages"},
    "fedfleet.engine.nested": {"nested": "nest_algorithm"},
    "fedfleet.learn.home": {"personalised": "with_local_leaves"},
    "fedfleet.learn.robust": {"folded_by": "with_fold"},
    "fedfleet.runtime.processes": {"in_processes": "map_in_processes"},
    "fedfleet.runtime.wire.framing": {"framed": "encode_frame", "opened": "decode_frame"},
    "fedfleet.runtime.wire.options": {"Serve": "ServeOptions"},
}


def new_place(module: str) -> str | None:
    """Where a module of an old name is today: '' for a package that is gone as such, None for a name that is not old.

    >>> new_place("fedfleet.runtime.executors.inline"), new_place("fedfleet.core.parts")
    ('fedfleet.executors.inline', None)
    """
    prefix = module
    while prefix:
        place = OLD_MODULES.get(prefix)
        if place is not None:
            return place + module[len(prefix) :] if place or prefix == module else None
        prefix = prefix.rpartition(".")[0]
    return None


class OldModules:
    """A finder and loader of modules by their old names: what a new module holds stands under both names."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module of an old name; None for all others, which the usual finders find."""
        del path, target
        place = new_place(fullname) if fullname.startswith("fedfleet.") else None
        return None if place is None else ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The import system's own empty module, which `exec_module` fills."""
        del spec

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module of the old name from that of the new one."""
        old = module.__name__
        place = new_place(old)
        if not place:
            return
        warnings.warn(f"the module {old} is now {place}; the old name goes with the next release", DeprecationWarning, 2)
        new = import_module(place)
        names = {name: name for name in vars(new) if not name.startswith("__")} | OLD_SYMBOLS.get(old, {})
        vars(module).update({name: getattr(new, today) for name, today in names.items()})


def install() -> None:
    """Let the import system find modules by their old names."""
    if not any(isinstance(finder, OldModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldModules())


def old_symbols(module: str, **new_of_old: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that still answers to old names: `__getattr__ = old_symbols(__name__, unpacked="unpack_tree")`."""

    def lookup(name: str) -> Any:
        if name not in new_of_old:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", new_of_old[name])
        return getattr(sys.modules[module], new_of_old[name])

    return lookup


def old_fields(**new_of_old: str) -> Callable[[Record], Record]:
    """A decorator for a record of which fields or methods have new names: the old ones can be read and given by keyword.

    Where both are given the old one holds, so that `dataclasses.replace(record, old=..)` replaces what it names.
    """

    def decorate(record: Record) -> Record:
        for old, new in new_of_old.items():
            setattr(record, old, _old_attribute(f"{record.__name__}.{old}", new))
        fields = set(new_of_old.values()) & set(getattr(record, "__dataclass_fields__", ()))
        if fields:
            _accept_old_keywords(record, {old: new for old, new in new_of_old.items() if new in fields})
        return record

    return decorate


def _old_attribute(old: str, new: str) -> property:
    def read(record: Any) -> Any:
        _warn(old, new)
        return getattr(record, new)

    return property(read)


def _accept_old_keywords(record: Any, new_of_old: dict[str, str]) -> None:
    create = record.__init__

    @wraps(create)
    def init(self: Any, *args: Any, **given: Any) -> None:
        for old in new_of_old.keys() & given.keys():
            _warn(f"{record.__name__}({old}=..)", new_of_old[old])
            given[new_of_old[old]] = given.pop(old)
        create(self, *args, **given)

    record.__init__ = init


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now {new}; the old name goes with the next release", DeprecationWarning, 3)
