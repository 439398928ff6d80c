"""The renderer for charts: what it renders, and that it refuses what it does not know."""

import pytest

from tests.deploy.templates import Unrenderable, render

VALUES = {"a": {"b": 3, "on": True, "off": False, "text": "x y"}, "list": ["p", "q"], "none": [], "map": {"k": "v"}}


def said(text):
    return render(text, VALUES)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ .Values.a.b }}", "3"),
        ("{{ .Values.a.text | quote }}", '"x y"'),
        ("{{ .Release.Name }}-{{ .Chart.Name }}", "mine-fedfleet"),
        ("x:\n  {{- if .Values.a.on }}\n  y\n  {{- end }}", "x:\n  y"),
        ("{{ if .Values.a.off }}y{{ else }}n{{ end }}", "n"),
        ("{{ if not .Values.a.off }}y{{ end }}", "y"),
        ("{{ range .Values.list }}[{{ . }}]{{ end }}", "[p][q]"),
        ("{{ range .Values.none }}[{{ . }}]{{ end }}", ""),
        ("{{ range $k, $v := .Values.map }}{{ $k }}={{ $v | quote }}{{ end }}", 'k="v"'),
        ('{{ default (printf "%s-tls" .Release.Name) .Values.a.off }}', "mine-tls"),
        ("r:\n  {{- toYaml .Values.map | nindent 2 }}", "r:\n  k: v"),
        ("{{ toJson .Values.a.text }}", '"x y"'),
        ("{{ .Values.a.text | b64enc }}", "eCB5"),
        ("{{ .Values.a.on }}", "true"),
    ],
)
def test_it_renders(text, expected):
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ .Values.absent }}",
        "{{ if .Values.a.on }}y",
        "y{{ end }}",
        "{{ include .Values.a.b }}",
        "{{.Values.a.b}}",
        '{{ required "say it" "" }}',
    ],
)
def test_it_refuses(text):
    with pytest.raises(Unrenderable):
        said(text)


def test_it_notes_what_was_used_also_in_branches_that_were_not_taken():
    used = render("{{ if .Values.a.off }}{{ .Values.a.b | quote }}{{ end }}{{ .Values.map }}", VALUES)[1]
    assert used == {"a.off", "a.b", "map"}
