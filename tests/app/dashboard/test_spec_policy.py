"""What a spec from the page may not do: read files elsewhere, use other machines, bring code."""

import pytest

from fedfleet.app.dashboard.spec_policy import refuse_foreign
from fedfleet.core.errors import BadInput


def table(**devices):
    return {"task": {"use": "digits_mlp"}, "world": {"devices": devices}, "algorithm": {"head": "fc.*"}}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x.json",
        "~/x.json",
        "flash:/etc/passwd",
        "secret.json",
        "here",
        "flhetbench:a#/etc/b",
        "c:x",
        "runs/../a",
        "a\0b",
    ],
)
def test_files_elsewhere_are_refused(tmp_path, path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "here").write_text("")
    with pytest.raises(BadInput, match=r"world\.devices\.(path|base)"):
        refuse_foreign(table(use="dpgmm", base=path), tmp_path / "runs", tmp_path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "secret.json").write_text("")
    (tmp_path / "runs" / "link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(BadInput, match="outside"):
        refuse_foreign(table(use="device_file", path="runs/link.json"), tmp_path / "runs", tmp_path)


@pytest.mark.parametrize("base", ["builtin", "builtin:", "fsreal", "flhetbench:", "runs/mine.json", "flash:runs/a"])
def test_bases_by_name_and_files_of_the_runs_are_fine(tmp_path, base):
    (tmp_path / "runs").mkdir()
    refuse_foreign(table(use="dpgmm", base=base), tmp_path / "runs", tmp_path)


@pytest.mark.parametrize(
    "spec",
    [{"task": {"use": "own"}}, {"run": {"execute": "ray"}}, {"run": {"ray_address": "auto"}}, {"a": [{"path": "/x"}]}],
)
def test_own_code_and_other_machines_are_refused(tmp_path, spec):
    with pytest.raises(BadInput):
        refuse_foreign(spec, tmp_path, tmp_path)
