"""The compose file: services that exist, volumes that are declared, commands that the program understands."""

from pathlib import Path

import yaml

from tests.deploy.commands import check_words

DEPLOY = Path(__file__).parents[2] / "examples/deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
DEVICES = [name for name in SERVICES if name.startswith("device-")]


def test_a_server_and_three_devices():
    assert {"server", "certificates", "invite"} <= set(SERVICES) and len(DEVICES) == 3


def test_commands_are_understood():
    server = check_words(SERVICES["server"]["command"])
    assert server["devices"] == 3 and server["resume"] and server["certificate"] is not None
    for name in DEVICES:
        device = check_words(SERVICES[name]["command"])
        host, port = device["server"].split(":")
        assert host in SERVICES and server["address"].endswith(f":{port}") and device["ca"] is not None
    made = SERVICES["certificates"]["command"][0].splitlines()[0].split()
    assert check_words(made[1:])["host"] == ["server", "localhost"]
    assert check_words(SERVICES["invite"]["command"][0].split("fedfleet ")[1].split(" >")[0].split())["uses"] == 3


def test_volumes_and_files_are_there():
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            there = (DEPLOY / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"]
            assert there, f"{name}: {volume}"
    build = SERVICES["image"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_each_device_has_a_store_of_its_own_and_no_key_of_the_server():
    stores = [SERVICES[name]["volumes"][0].split(":")[0] for name in DEVICES]
    assert len(set(stores)) == 3
    for name in DEVICES:
        assert not [volume for volume in SERVICES[name]["volumes"] if volume.startswith("certificates:")]
        assert all(volume.endswith(":ro") for volume in SERVICES[name]["volumes"][1:])


def test_services_wait_for_services_that_are_there():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES and other != name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]


def test_health_is_asked_where_the_server_tells_it():
    told = check_words(SERVICES["server"]["command"])["metrics"]
    assert f"http://{told}/readyz" in SERVICES["server"]["healthcheck"]["test"][-1]
    compile(SERVICES["server"]["healthcheck"]["test"][-1], "<healthcheck>", "exec")


def test_long_running_services_are_hardened_and_have_time_to_stop():
    for name in ("server", *DEVICES):
        service = SERVICES[name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and "user" not in service
        assert int(service["stop_grace_period"].rstrip("s")) >= 30
