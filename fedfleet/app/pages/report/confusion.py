"""Class by class: what the last model finds, and its confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, text
from fedfleet.app.pages.html import details_block, table
from fedfleet.app.pages.report.number_words import per_cent
from fedfleet.app.pages.report.report_facts import Facts

MOST = 20  # classes that are drawn; more are in a table
_LETTERS = 12  # of a class beside its row
_HALF = 0.5  # of a row: beyond that its words are paper, so that neither shade is one in between


def classes_section(f: Facts) -> list[str]:
    """The section, where the measures hold classes."""
    classes: Sequence[dict[str, Any]] = f.metrics.get("classes") or []
    # It says nothing of the first weights, or of a model that no client uses.
    if not classes or not f.metrics["commits"] or f.personal:
        return []
    ranked = sorted(classes, key=lambda c: c["recall"] if c["recall"] is not None else 2.0)
    worst, best = ranked[0], [c for c in ranked if c["recall"] is not None][-1]
    summary = (
        f"Of class {class_name(worst)} the model finds {_share_text(worst['recall'])}, of class {class_name(best)} "
        f"{_share_text(best['recall'])}."
    )
    parts = ["<h2>Class by class</h2>", f"<p>{escape(summary)}</p>"]
    rows = [[class_name(c), f"{c['n']:,}", _share_text(c["recall"]), _share_text(c["precision"])] for c in classes]
    listing = table(["class", "test samples", "recall", "precision"], rows)
    if len(classes) > MOST:
        return [*parts, details_block("All classes", listing)]
    labels, confusion = [class_name(c) for c in classes], f.metrics.get("confusion")
    recalls = list[Bar]()
    for name, c in zip(labels, classes, strict=True):
        recalls.append(Bar(name, [Part(c["recall"] or 0.0, "a4")], _share_text(c["recall"]), f"{c['n']:,} samples"))
    title, how = "How many of each class the model finds", "Share of its test samples that are classified correctly (recall)"
    parts.append(figure(title, how, lambda sheet: bars(recalls, sheet, names_left=True, most=1.0), summary))
    if confusion:
        how = "Rows: true class; columns: predicted class. Darker: larger share of the row."
        mistake = worst_mistake(confusion, labels)
        parts.append(figure("Confusion matrix", how, lambda sheet: confusion_matrix(confusion, labels, sheet), mistake))
    return [*parts, details_block("All classes", listing)]


def class_name(row: Mapping[str, Any]) -> str:
    """A class by its name, or else by its number.

    >>> class_name({"label": 1, "name": "run"}), class_name({"label": 1})
    ('run', '1')
    """
    return str(row.get("name", row["label"]))


def worst_mistake(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    """The mistake that is made most often.

    >>> worst_mistake([[5, 2], [0, 9]], ["a", "b"])
    'Most frequent mistake: a classified as b, 2 of 7 times.'
    """
    worst = max(((n, i, j) for i, row in enumerate(confusion) for j, n in enumerate(row) if i != j), default=(0, 0, 0))
    if not worst[0]:
        return "No sample is misclassified."
    n, i, j = worst
    return f"Most frequent mistake: {labels[i]} classified as {labels[j]}, {n:,} of {sum(confusion[i]):,} times."


def confusion_matrix(confusion: Sequence[Sequence[int]], labels: Sequence[str], sheet: Sheet) -> Drawing:
    """A square for each pair; the share of its row as darkness, the number where there is room."""
    letters = min(max(map(len, labels), default=0), _LETTERS)
    left, top = max(34.0, 7.0 * letters + 10), 22.0
    side = min((sheet.width - left) / max(len(labels), 1), 44.0)
    result = [text(left + (j + 0.5) * side, 14, label[: max(4, int(side // 7))], anchor="middle") for j, label in enumerate(labels)]
    for i, row in enumerate(confusion):
        total = sum(row) or 1
        result.append(text(left - 7, top + (i + 0.5) * side + 4, labels[i][:_LETTERS], anchor="end"))
        for j, n in enumerate(row):
            share, kind = n / total, "a4" if i == j else "a3"
            x, y = left + j * side, top + i * side
            result.append(box(x + 0.5, y + 0.5, side - 1, side - 1, "aw"))
            if n:
                # Pale up to half, full beyond: on either side the words on it can be read.
                opacity, ink = (0.08 + 0.6 * share, "ink") if share <= _HALF else (0.93 + 0.07 * share, "on")
                square = box(x + 0.5, y + 0.5, side - 1, side - 1, kind)
                result.append(square.replace("/>", f' fill-opacity="{opacity:.2f}"/>'))
                result.append(text(x + side / 2, y + side / 2 + 4, f"{n}" if side > 24 else "", ink, "middle"))
    return Drawing(sheet.width, top + side * len(labels) + 6, result)


def _share_text(value: float | None) -> str:
    return "-" if value is None else per_cent(value)
