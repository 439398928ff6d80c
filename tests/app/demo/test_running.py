"""One run of the demo."""

from fedfleet.app.demo.running import trained


def test_a_run_has_its_folder_and_its_name(tmp_path):
    table = {"task": "digits_logreg", "world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 2}}
    done = trained(tmp_path, "first", table, label="first", quiet=True)
    assert done.out == tmp_path / "runs/first" and (done.out / "seal.json").is_file()
    assert done.metrics["rounds"] == 2
