"""Options of own data and models: declared once, and the same at every verb that takes them."""

import pytest

from fedfleet.app.api import measure, predict, serve, study, train, tune
from fedfleet.app.cli.call_parameters import read_call
from fedfleet.app.terminal import own_options

CALLS = [train.run_spec, study.study, tune.tune, predict.predict, measure.measure, serve.serve]
NAMES = {
    "data": own_options.OwnPath, "model": own_options.OwnModel, "label": own_options.LabelColumn,
    "owner": own_options.OwnerColumn, "kind": own_options.KindOfTask, "missing": own_options.MissingRule,
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_every_verb_has_them_with_their_help(call):
    parameters = {p.name: p for p in read_call(call)}
    assert parameters.keys() >= NAMES.keys()
    for name, hint in NAMES.items():
        assert parameters[name].help and (call is serve.serve or hint.__metadata__[0].rstrip(".") in parameters[name].help)
    assert parameters["label"].several and not parameters["owner"].several
