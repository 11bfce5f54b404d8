"""The terminal's output if the kit of the current policy is missing."""

from __future__ import annotations

from pathlib import Path

import headway as package
from tests.cli.terminal import headway
from tests.project.test_kit_missing import TOML, publish_vanished


def test_status_and_doctor_name_the_missing_kit(empty: Path) -> None:
    (empty / "headway.toml").write_text(TOML)
    with package.open(empty, environ={}) as project:
        publish_vanished(project)
    shown = headway("-C", empty, "status")
    assert "kit_missing" in shown.out + shown.err
    (task,) = headway("-C", empty, "status", "--json").json["tasks"]
    assert (task["current"], task["kit_missing"]) == ("rules@0", "vanished")
    examined = headway("-C", empty, "doctor")
    assert examined.code == 1
    assert "kit_missing" in examined.out
