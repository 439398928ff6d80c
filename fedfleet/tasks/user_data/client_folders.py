"""Files and folders: which reader reads them; in a folder with a file for each client, the names of the files are the owners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fedfleet.core.errors import BadInput, nearest_file, printable
from fedfleet.tasks.user_data.array_files import check_alike_labels, client_arrays, read_npz
from fedfleet.tasks.user_data.character_windows import CharacterWindows, character_windows, texts_by_owner
from fedfleet.tasks.user_data.columns import Choice, Table, check_column, label_columns, text_column
from fedfleet.tasks.user_data.delimited_files import text_content
from fedfleet.tasks.user_data.image_folders import holds_pictures, read_image_folder
from fedfleet.tasks.user_data.leaf_json import read_leaf
from fedfleet.tasks.user_data.raw_samples import RawSamples, table_samples
from fedfleet.tasks.user_data.tabular_files import READERS, joined_tables, read_table_file

SUFFIXES = (*READERS, ".npz", ".json", ".txt")
KINDS = (
    "a folder of files, one for each client, or a single file (.csv, .tsv, .arff, .parquet, .npz, LEAF's .json, .txt), or a "
    "folder of "
    "pictures, CLIENT/CLASS/picture.png"
)
Found = RawSamples | CharacterWindows


def read_path(path: Path, choice: Choice) -> Found:
    """The samples of a folder or a file, by what it holds."""
    try:
        there, is_folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:
        raise BadInput(f"data: {printable(str(path))} is no path: {error}; give {KINDS}") from None
    if not there:
        raise BadInput(f"data: there is no file or folder {path}{nearest_file(path) or f'; give {KINDS}'}")
    return _read_folder(path, choice) if is_folder else _read_file(path, choice)


def _read_file(path: Path, choice: Choice) -> Found:
    suffix = path.suffix.lower()
    if suffix in READERS:
        return table_source(read_table_file(path, choice.text_columns()), choice)
    if suffix == ".npz":
        return read_npz(path, choice)
    if suffix == ".json":
        _refuse_columns(choice, path)
        return read_leaf([path])
    if suffix == ".txt":
        return _texts(str(path), [path], choice)
    raise BadInput(f"data: {path} is of an unsupported file type; give {KINDS}")


def table_source(table: Table, choice: Choice, owner: Callable[[], Sequence[str]] | None = None) -> Found:
    """A table as samples; or, where the next character is to be predicted, its column of text as windows."""
    whose = None if owner is None else text_column("owner", owner())
    if choice.kind != "next_token":
        return table_samples(table, choice, whose)
    if choice.input is None or len(choice.input) != 1:
        raise BadInput(f'data: kind = "next_token" needs the one column of {table.where} that holds text; name it with input=..')
    check_column(table.names, choice.input[0], "input")
    if choice.owner is not None:
        check_column(table.names, choice.owner, "owner")
        whose = table.column(choice.owner)
    text = table.column(choice.input[0])
    if text.names is None:
        raise BadInput(
            f"data: the column {text.name!r} of {table.where} has no text; name the column that holds text with input=.."
        )
    return _windows(table.where, texts_by_owner(text, whose), choice, owned=whose is not None)


def _windows(where: str, texts: dict[str, str], choice: Choice, *, owned: bool) -> CharacterWindows:
    if choice.label is not None or choice.time is not None:
        raise BadInput("data: of a text, the label is the next character; leave label=.. and time=.. out")
    found = character_windows(where, texts, choice.context)
    return found if owned else replace(found, owners=())


def _read_folder(path: Path, choice: Choice) -> Found:
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file())
    if not files:
        if holds_pictures(path):
            _refuse_columns(choice, path)
            return read_image_folder(path)
        raise BadInput(f"data: {path} holds no {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, and no pictures; give {KINDS}")
    kinds = sorted({p.suffix.lower() for p in files})
    if len(kinds) > 1:
        raise BadInput(f"data: {path} contains {' and '.join(kinds)} files; keep only one kind there")
    if kinds == [".json"]:
        _refuse_columns(choice, path)
        return read_leaf(files)
    if choice.owner is not None:
        raise BadInput(
            "data: owner= is for a single table; in a folder, the names of the files are the owners, so leave owner= out"
        )
    if kinds == [".npz"]:
        return client_arrays(str(path), [(file.stem, read_npz(file, choice)) for file in files])
    if kinds == [".txt"]:
        return _texts(str(path), files, choice)
    tables = [(file.stem, read_table_file(file, choice.text_columns())) for file in files]
    table = joined_tables(str(path), tables)
    if choice.kind != "next_token":
        for name in label_columns(table.names, choice.label, last=True):
            check_alike_labels([(client, one.column(name)) for client, one in tables])
    return table_source(table, choice, lambda: [name for name, one in tables for _ in range(len(one.columns[0].values))])


def _texts(where: str, files: Sequence[Path], choice: Choice) -> CharacterWindows:
    if choice.kind not in ("auto", "next_token"):
        raise BadInput(
            f'data: {where} is text, of which the next character is predicted, not kind = "{choice.kind}"; use kind = "next_token"'
        )
    _refuse_columns(choice, Path(where))
    texts = {file.stem: text_content(file).decode("utf-8") for file in files}
    return _windows(where, texts, choice, owned=len(files) > 1)


def _refuse_columns(choice: Choice, path: Path) -> None:
    """Refuse names of columns where there are none."""
    for what in ("input", "label", "owner", "time", "drop"):
        if getattr(choice, what):
            raise BadInput(f"data: {path} has no columns with names, so {what}=.. has no meaning here; leave it out")
