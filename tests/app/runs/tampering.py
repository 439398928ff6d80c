"""Tampering with run folders, by someone who changes a file and by someone who recomputes every seal afterwards."""

import json
import shutil
import sqlite3

from fedfleet.app.assemble import assemble
from fedfleet.app.runs.run_folder import journal_measures
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import FedFleetError
from fedfleet.store import journal as journals
from fedfleet.store.files import load_tree, save_tree
from fedfleet.store.seals import Seal, files_of, hashes, identity, write_seal

# Devices of very unlike speed under a deadline: tasks are dropped, rounds fail, reports arrive late.
SPEC = {
    "seed": 5,
    "task": "digits_logreg",
    "world": {
        "clients": 16,
        "devices": "spread",
        "states": {"use": "daily", "sessions": 24, "ready": 0.6},
        "data": {"use": "dirichlet"},
        "model_bytes": 1e8,
    },
    "pace": {"use": "deadline", "cohort": 5, "seconds": 45.0},
    "stop": {"rounds": 9},
    "run": {"checkpoint_every": 2},
}


def reseal(folder, **about):
    """Make every link and every seal fit what is in the folder now, as a forger would who knows all of our code."""
    path = folder / "run.db"
    kind = about.get("kind") or json.loads(journals.identity_of(path))["kind"]
    rows = list(journals.rows_of(path))
    db = sqlite3.connect(path)
    links = {seq for (seq,) in db.execute("SELECT seq FROM links") if seq <= len(rows)}
    db.close()
    for beside in ("run.db-journal", "run.db-wal"):
        (folder / beside).unlink(missing_ok=True)
    journals.create(path, identity(folder, kind), rows, links | {len(rows)}).close()
    result = journals.check_journal(path)
    if (folder / "seal.json").is_file():
        write_seal(folder, Seal(result.digest, result.rows, result.link, hashes(folder, files_of(folder))))


def remeasure(folder):
    """Make the measures fit the journal, where it can still be measured."""
    path = folder / "metrics.json"
    try:
        setup = assemble(load_spec(folder / "spec.toml"))
        events, digest = list(journals.read(folder / "run.db")), journals.digest_of(folder / "run.db")
    except (FedFleetError, OSError, ValueError, KeyError):  # a spec or a journal that cannot be read is found out anyway
        return
    try:
        result = journal_measures(setup, events, digest)
    except (KeyError, IndexError, ValueError, ArithmeticError):  # nor can one whose events contradict one another be measured
        return
    path.write_text(json.dumps(json.loads(path.read_text()) | result, indent=1) + "\n")


def sql(*statements):
    """A change of the journal by SQL."""

    def change(folder):
        db = sqlite3.connect(folder / "run.db")
        with db:
            for statement in statements:
                db.execute(statement)
        db.close()

    return change


def text(name, old, new):
    """A change of a text file."""

    def change(folder):
        path = folder / name
        assert old in path.read_text(), (name, old)
        path.write_text(path.read_text().replace(old, new, 1))

    return change


def measure(name, value):
    """A change of one measure."""

    def change(folder):
        path = folder / "metrics.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}, indent=1) + "\n")

    return change


def weights(folder):
    """Another model, with a seal of its own."""
    params, meta = load_tree(folder / "model.safetensors")
    save_tree(folder / "model.safetensors", {n: v + 1 for n, v in params.items()}, meta)


def planted(name, content=b"planted"):
    def change(folder):
        (folder / name).write_bytes(content)

    return change


def removed(name):
    def change(folder):
        (folder / name).unlink()

    return change


def flipped_checkpoint(folder):
    path = max(folder.glob("checkpoint-*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def first(kind, columns="seq"):
    return f"(SELECT {columns} FROM events WHERE kind = {kind} ORDER BY seq LIMIT 1)"


def set_first(kind, change):
    return sql(f"UPDATE events SET {change} WHERE seq = {first(kind)}")


_ALL = "time, kind, round, version, task, client, a, b, body, note"
# Lies about what happened: whoever tells them and seals everything anew is found out by running it again.
LIES = {
    "every accuracy is one": sql("UPDATE events SET a = b WHERE kind = 9"),
    "one more is right": sql("UPDATE events SET a = a + 1 WHERE seq = (SELECT max(seq) FROM events WHERE kind = 9)"),
    "a smaller test set": sql("UPDATE events SET b = b - 10 WHERE kind = 9"),
    "other scores of clients": sql("UPDATE events SET body = replace(body, '[0,', '[1,') WHERE kind = 9 AND body IS NOT NULL"),
    "a better loss": sql("UPDATE events SET note = '0.01' WHERE kind = 9"),
    "another model": set_first(12, f"body = '{'0' * 64}'"),
    "another training loss": set_first(12, "note = '0.01'"),
    "more reports in a model": set_first(12, "task = task + 1"),
    "an earlier arrival": set_first(4, "time = time - 0.5"),
    "a quicker device": set_first(4, "a = a / 2"),
    "a smaller upload": set_first(4, "b = b / 2"),
    "all uploads smaller": sql("UPDATE events SET b = b / 4 WHERE kind = 4"),
    "another client arrives": set_first(4, "client = client + 1"),
    "arrivals exchanged": sql(
        "UPDATE events SET task = 1000 - task WHERE kind = 4 AND seq <= (SELECT seq + 3 FROM events WHERE kind = 4 LIMIT 1)"
    ),
    "another client is asked": set_first(3, "client = (client + 7) % 16"),
    "fewer samples": set_first(3, "a = a - 1"),
    "a smaller download": sql("UPDATE events SET b = b / 4 WHERE kind = 3"),
    "another roster": set_first(1, f"body = '{'0' * 16}'"),
    "a larger roster": set_first(1, "task = task + 1"),
    "other reports folded": set_first(8, "body = '0'"),
    "other statistics": set_first(8, "note = '{}'"),
    "the last rows deleted": sql("DELETE FROM events WHERE seq > (SELECT max(seq) - 4 FROM events)"),
    "cut short and ended": sql(
        "DELETE FROM events WHERE seq >= (SELECT seq FROM events WHERE kind = 12 AND version = 3) AND kind != 13",
        "UPDATE events SET seq = (SELECT count(*) FROM events) WHERE kind = 13",
    ),
    "a row left out": sql(
        f"DELETE FROM events WHERE seq = {first(4)}",
        "CREATE TABLE t AS SELECT * FROM events ORDER BY seq",
        "DELETE FROM events",
        f"INSERT INTO events ({_ALL}) SELECT {_ALL} FROM t ORDER BY seq",
        "DROP TABLE t",
    ),
    "a row twice": sql(
        "CREATE TABLE t AS SELECT * FROM events ORDER BY seq",
        f"INSERT INTO t SELECT * FROM events WHERE seq = {first(4)}",
        "DELETE FROM events",
        f"INSERT INTO events ({_ALL}) SELECT {_ALL} FROM t ORDER BY seq",
        "DROP TABLE t",
    ),
    "a row after the end": sql(f"INSERT INTO events ({_ALL}) SELECT {_ALL} FROM events WHERE kind = 9 LIMIT 1"),
    "another timer": set_first(6, "time = time + 0.25"),
    "all times halved": sql("UPDATE events SET time = time / 2"),
    "another seed in the journal": sql("UPDATE events SET body = replace(body, '\"seed\": 5', '\"seed\": 6') WHERE kind = 0"),
    "another spec in the journal": sql("UPDATE events SET body = replace(body, '\"spec\": \"', '\"spec\": \"0') WHERE kind = 0"),
    "another reason of the end": set_first(13, "body = 'target_accuracy'"),
    "an arrival was a loss": set_first(4, "kind = 5"),
    "another round": set_first(3, "round = round + 1"),
    "another version": set_first(12, "version = version + 1"),
    "a failed round hidden": sql("UPDATE events SET body = 'something else' WHERE kind = 11"),
    "dropped tasks worked less": sql("UPDATE events SET a = a / 2 WHERE kind = 7"),
    "an unknown kind": set_first(4, "kind = 42"),
    "no time": set_first(4, "time = NULL"),
    "words for a number": set_first(4, "task = 'many'"),
    "bytes for a text": set_first(12, "body = x'00ff'"),
    "a number beyond all": set_first(4, "task = 9223372036854775807"),
    "a body that is not JSON": set_first(0, "body = '{'"),
    "a better accuracy": measure("accuracy", 0.99),
    "fewer bytes": measure("bytes_up", 1.0),
    "no warnings": measure("warnings", ["all is well"]),
    "a measure of one's own": measure("grade", "A"),
    "no measures at all": planted("metrics.json", b"{}"),
    "measures that are no JSON": planted("metrics.json", b"{"),
    "another model file": weights,
    "a model file that is none": planted("model.safetensors", b"torn"),
    "another seed in the spec": text("spec.toml", "seed = 5", "seed = 6"),
    "another learning rate": text("spec.toml", "lr = 0.1", "lr = 0.2"),
    "another deadline": text("spec.toml", "seconds = 45.0", "seconds = 46.0"),
    "a spec that is none": planted("spec.toml", b"seed = "),
    "more threads in another form": text("executor.json", '"execute": "auto"', '"execute": "stacked"'),
    "conditions that are none": planted("executor.json", b"[]"),
}  # fmt: skip

# Changes that lie about nothing that could be derived, or that only whoever has not the seals would make.
UNSEALED = {
    "a forged remark": sql(f"INSERT INTO events ({_ALL}) VALUES (0, 99, 0, 0, 0, 0, 0, 0, NULL, 'trust me')"),
    "another wall time": measure("wall_seconds", 0.5),
    "a comment in the spec": lambda folder: (folder / "spec.toml").write_text((folder / "spec.toml").read_text() + "# hi\n"),
    "a link left out": sql("DELETE FROM links WHERE seq = (SELECT min(seq) FROM links)"),
    "another link": sql("UPDATE links SET link = x'00' WHERE seq = (SELECT min(seq) FROM links)"),
    "no links": sql("DELETE FROM links"),
    "another identity": sql("UPDATE about SET identity = 'mine'"),
    "no identity": sql("DELETE FROM about"),
    "a rollback beside the journal": planted("run.db-journal"),
    "a write-ahead log beside the journal": planted("run.db-wal"),
    "a file added": planted("notes.txt"),
    "the model removed": removed("model.safetensors"),
    "the measures removed": removed("metrics.json"),
    "the conditions removed": removed("executor.json"),
    "a checkpoint changed": flipped_checkpoint,
    "the seal emptied": planted("seal.json", b"{}"),
}


def tampered(run, folder, change, *, sealed):
    """A copy of a run with this change in it."""
    shutil.copytree(run, folder)
    before = (folder / "metrics.json").read_bytes()
    change(folder)
    if sealed:
        reseal(folder)
        if before == (folder / "metrics.json").read_bytes():  # else the lie is in there
            remeasure(folder)
            reseal(folder)
    return folder
