"""The Helm chart renders to what Kubernetes asks for, uses every value and defines every one that it uses."""

import base64
import copy
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from tests.deploy.commands import check_words
from tests.deploy.templates import Unrenderable, render

CHART = Path(__file__).parents[2] / "examples/deploy/helm/fedfleet"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES = sorted((CHART / "templates").iterdir())
TLS = {"certificate": "CERT", "key": "KEY"}


def with_values(**changes):
    """The defaults with some values set, each by its path with __ for a dot."""
    values = copy.deepcopy(VALUES)
    values["tls"] |= TLS
    for path, value in changes.items():
        *above, name = path.split("__")
        table = values
        for step in above:
            table = table[step]
        assert name in table
        table[name] = value
    return values


def rendered(**changes):
    """All objects of the chart by kind."""
    texts = [render(p.read_text(), with_values(**changes))[0] for p in TEMPLATES if p.suffix == ".yaml"]
    result = [thing for text in texts for thing in yaml.safe_load_all(text) if thing]
    return {thing["kind"]: thing for thing in result}


def paths(table, prefix=""):
    """All values of a table by their path; lists and empty tables are values."""
    for name, value in table.items():
        if isinstance(value, dict) and value and f"{prefix}{name}" != "resources":
            yield from paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_value_is_used_and_every_used_one_is_defined():
    used = set().union(*(render(p.read_text(), with_values())[1] for p in TEMPLATES))
    assert used == set(paths(VALUES))


def test_objects_have_what_kubernetes_asks_for():
    result = rendered()
    assert set(result) == {"ConfigMap", "Secret", "Service", "StatefulSet"}
    for thing in result.values():
        assert thing["apiVersion"] in ("v1", "apps/v1")
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", thing["metadata"]["name"])
        assert thing["metadata"]["labels"]["app.kubernetes.io/instance"] == "mine"
    assert "{{" not in str(result)


def test_the_stateful_set_is_one_server_with_a_volume():
    spec = rendered()["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 1 and spec["serviceName"] == rendered()["Service"]["metadata"]["name"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == rendered()["Service"]["spec"]["selector"]
    claim = spec["volumeClaimTemplates"][0]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == VALUES["persistence"]["size"]
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"]}
    for container in (*pod["containers"], *pod["initContainers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == volumes


def test_nothing_runs_as_root_or_writes_outside_its_volumes():
    pod = rendered()["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["containers"], *pod["initContainers"]):
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"]
        assert own["capabilities"] == {"drop": ["ALL"]}
    shm = next(volume for volume in pod["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}  # 64 MiB by default: too little for models


def test_the_server_is_started_as_its_command_line_allows():
    container = rendered(tls__clientCa="CA", server__extraArgs=["--keep-reports"])["StatefulSet"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    told = check_words(container["args"])
    assert told["resume"] and str(told["out"]) == "/data/run" and told["devices"] == 3 and told["keep_reports"]
    assert told["address"] == "0.0.0.0:50051" and str(told["client_ca"]).endswith("client-ca.crt")
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert "/data" in mounted and str(told["spec"]) in mounted and str(told["key"].parent) in mounted


def test_probes_ask_where_the_server_answers():
    container = rendered()["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert check_words(container["args"])["metrics"] == f"0.0.0.0:{ports['metrics']}"
    assert rendered()["Service"]["spec"]["ports"][0]["targetPort"] in ports


def test_there_is_time_to_stop_in_order():
    pod = rendered()["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= check_words(pod["containers"][0]["args"])["drain_seconds"] + 10


def test_the_spec_is_one_that_can_be_served():
    text = rendered()["ConfigMap"]["data"]["spec.toml"]
    assert text == VALUES["spec"]
    setup = assemble(resolve(tomllib.loads(text)))
    assert setup.plan.clients >= VALUES["server"]["devices"]


def test_certificates_come_from_values_or_from_a_secret_that_is_there():
    secret = rendered()["Secret"]
    assert base64.b64decode(secret["data"]["tls.key"]) == b"KEY"
    result = rendered(tls__existingSecret="own")
    assert "Secret" not in result
    volumes = result["StatefulSet"]["spec"]["template"]["spec"]["volumes"]
    tls = next(volume for volume in volumes if volume["name"] == "tls")["secret"]
    assert tls == {"secretName": "own", "defaultMode": 0o440}
    with pytest.raises(Unrenderable, match=r"tls\.certificate"):
        rendered(tls__certificate="")


def test_annotations_invite_prometheus_unless_told_otherwise():
    annotations = rendered(podAnnotations={"own": "1"})["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "9464" and annotations["own"] == "1"
    quiet = rendered(metrics__scrape=False)["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    assert not quiet


def test_what_is_optional_can_be_set():
    result = rendered(
        nodeSelector={"disk": "ssd"}, tolerations=[{"key": "x"}], persistence__storageClass="fast",
        service__annotations={"a": "b"},
    )  # fmt: skip
    pod = result["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disk": "ssd"} and pod["tolerations"] == [{"key": "x"}]
    assert result["StatefulSet"]["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert result["Service"]["metadata"]["annotations"] == {"a": "b"}


def test_the_notes_speak_of_commands_that_are_there():
    import shlex

    notes = render((CHART / "templates/NOTES.txt").read_text(), with_values())[0]
    commands = re.findall(r"^ +.*?(fedfleet (?:token|device|status) .*)$", notes, re.M)
    assert len(commands) == 3
    for command in commands:
        check_words(shlex.split(command)[1:])


def test_the_chart_says_who_it_is():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2" and chart["name"] == CHART.name
    assert VALUES["image"]["tag"] == chart["appVersion"]
