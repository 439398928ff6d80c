"""What the tests of the wire share."""

from pathlib import Path

import pytest


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text('[task]\nuse = "digits_logreg"\n[world]\nclients = 3\n[pace]\ncohort = 3\n')
    return path
