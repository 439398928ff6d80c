"""A stand-in for a Hugging Face dataset: columns by name, features beside them."""

from types import SimpleNamespace


class Table:
    """Columns of lists; `names` are those of a label column, as its features have them."""

    def __init__(self, names=None, **columns):
        self.column_names = list(columns)
        self.features = {name: SimpleNamespace() for name in columns}
        if names:
            self.features["label"] = SimpleNamespace(names=names)
        self._columns = columns

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name):
        return self._columns[name]
