"""Kits in settings: which are in use, the names that they bring, and the tables that they declare."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway import settings
from headway.nouns import kit as kits
from headway.nouns.core_kit import CORE
from headway.nouns.errors import InvalidSettings
from headway.nouns.kind import Kind
from headway.nouns.kit import BrokenKit, Catalogue, Family, Kit
from headway.settings import kits as settings_kits
from headway.settings.schema import EncoderEndpoint
from tests.settings.acme import AcmeSettings, Limits

ACME = Kit(
    name="acme",
    summary="A kit of somebody else.",
    kinds={"spin": Kind(summary="Spin.")},
    families={"spinner": Family(kinds=("spin", "choice"), policy="acme.policy:make", learner="acme.learner:Learner")},
    encoders={"morse": "acme.encode:make"},
    actions={"moves": ("left", "right")},
    tables={
        "acme": "tests.settings.acme:AcmeSettings",
        "many.*": "tests.settings.acme:AcmeSettings",
        "acme_broken": "no_such_module:Settings",
    },
)
WITH_ACME = Catalogue((CORE, ACME))


def parse(text: str, catalogue: Catalogue | None = WITH_ACME, **environ: str) -> settings.Settings:
    return settings.parse(text, directory=Path(), environ=environ, catalogue=catalogue)


def refused(text: str, catalogue: Catalogue | None = WITH_ACME, **environ: str) -> InvalidSettings:
    with pytest.raises(InvalidSettings) as caught:
        parse(text, catalogue, **environ)
    return caught.value


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that packages offer kits of these names; importing one fails the test."""

    def offer(*names: str) -> None:
        def load() -> Any:
            pytest.fail("an installed kit that is not in use was imported")

        for module in (kits, settings_kits):
            monkeypatch.setattr(module, "installed", lambda: dict.fromkeys(names, load))

    return offer


def test_kits_in_use_come_from_the_file_and_from_the_variable(tmp_path: Path) -> None:
    assert settings.kits_in_use(tmp_path, {}) == ()
    assert settings.kits_in_use(tmp_path, {"HEADWAY_KITS": " other ,acme,, "}) == ("other", "acme")
    (tmp_path / "headway.toml").write_text('[kits]\nuse = ["acme", "more-of_it"]\n[acme]\nanything = 1\n', "utf-8")
    assert settings.kits_in_use(tmp_path, {}) == ("acme", "more-of_it")
    assert settings.kits_in_use(tmp_path, {"HEADWAY_KITS": "other,acme"}) == ("acme", "more-of_it", "other")


def test_kits_in_use_reads_only_its_own_table_and_reads_that_strictly(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.a]\nfamily = "spinner"\n[unheard_of]\n', "utf-8")
    assert settings.kits_in_use(tmp_path, {}) == ()
    (tmp_path / "headway.toml").write_text("[kits]\nuses = []\n", "utf-8")
    with pytest.raises(InvalidSettings, match=r"kits\.uses.*Did you mean 'use'"):
        settings.kits_in_use(tmp_path, {})
    (tmp_path / "headway.toml").write_text("[kits\n", "utf-8")
    with pytest.raises(InvalidSettings, match=r"headway\.toml:1:"):
        settings.kits_in_use(tmp_path, {})


def test_the_variable_of_the_process_is_read_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_KITS", "acme")
    assert settings.kits_in_use(tmp_path) == ("acme",)
    assert settings.load(tmp_path).kits == ("acme",)


def test_a_kit_adds_kinds_families_encoders_and_action_sets() -> None:
    loaded = parse('[tasks.a]\nkind = "spin"\n[tasks.b]\nfamily = "spinner"\nencoder = "morse"\nactions = "moves"\n')
    assert (loaded.task("a").kind, loaded.task("a").family) == ("spin", "spinner")
    assert loaded.task("b").actions == ("left", "right")
    assert 'expected one of "choice", "spin"' in refused('[tasks.a]\nkind = "sping"\n').message
    assert "Did you mean 'spinner'?" in str(refused('[tasks.a]\nfamily = "spiner"\n'))
    assert 'or "moves"' in refused('[tasks.a]\nactions = "mutations"\n').message


@pytest.mark.kits("*")
def test_built_in_kits_are_available_without_being_named() -> None:
    loaded = parse('[tasks.a]\nfamily = "cql"\nencoder = "minilm+structure"\nactions = "mutations"\n', None)
    assert loaded.task("a").actions[0] == "try-catch-style"


@pytest.mark.kits("*")
def test_a_reply_task_is_rated_by_stars_or_thumbs() -> None:
    task = parse('[tasks.a]\nkind = "reply"\nsystem = """Be brief.\nBe kind."""\n', None).task("a")
    assert (task.family, task.own.base, task.own.system) == ("language", "smollm2", "Be brief.\nBe kind.")
    assert (task.floor, task.explore.kind, task.required) == (0.0, "none", ())
    assert {name: term.transform for name, term in dict(task.reward).items()} == {"stars": "stars", "thumb": "thumbs"}
    assert refused('[tasks.a]\nkind = "reply"\nsystem = 3\n', None).code == "settings_bad_value"


@pytest.mark.kits("*")
def test_the_default_family_of_a_ranking_is_one_that_exists() -> None:
    assert parse('[tasks.a]\nkind = "ranking"\n', None).task("a").family == "ranker"
    assert parse('[tasks.a]\nkind = "ranking"\nfamily = "bandit"\n', None).task("a").family == "bandit"
    assert refused('[tasks.a]\nkind = "ranking"\nfamily = "rank"\n', None).code == "settings_bad_value"


def test_the_endpoint_encoder_cannot_be_set_by_name() -> None:
    assert 'is "endpoint", expected one of' in refused('[tasks.a]\nencoder = "endpoint"\n', None).message
    loaded = parse('[tasks.a]\nencoder = { url = "http://x/v1", model = "m" }\n', None)
    assert loaded.task("a").encoder == EncoderEndpoint(url="http://x/v1", model="m")


def test_an_installed_kit_that_is_not_in_use_is_named_and_not_imported(offered: Callable[..., None]) -> None:
    offered("acme")
    text = '[tasks.a]\nfamily = "zigzag"\n'
    for wrong in (text, '[tasks.a]\nkind = "zigzag"\n', '[tasks.a]\nencoder = "zigzag"\n', "[zigzag]\n"):
        hint = refused(wrong, None).hint
        assert "Installed kits that are not in use: 'acme'. Name them in use = [] of [kits]." in hint
    assert "acme" not in refused(text.replace("zigzag", "bandits"), None).hint, "a similar name is enough"


def test_a_broken_kit_in_use_is_reported_with_the_reason() -> None:
    broken = Catalogue((CORE,), (BrokenKit("acme", "it cannot be imported: ImportError: no gears."),))
    hint = refused('[tasks.a]\nfamily = "zigzag"\n', broken).hint
    assert hint.startswith("The kit 'acme' cannot be used: it cannot be imported: ImportError: no gears.")
    assert parse('[kits]\nuse = ["nowhere"]\n', None).kits == ("nowhere",), "a missing kit does not stop the others"


def test_a_table_that_a_kit_declares_is_read_with_its_struct() -> None:
    loaded = parse('[acme]\naddress = "x"\nsteps = [1, 2]\nnickname = "ace"\nlimits = { most = 3 }\n')
    assert loaded.kit_tables["acme"] == AcmeSettings(address="x", steps=[1, 2], nickname="ace", limits=Limits(most=3))
    assert dict(parse("").kit_tables) == {}


def test_a_kit_may_declare_one_table_per_name() -> None:
    loaded = parse('[many.a]\naddress = "x"\n[many.b]\naddress = "y"\n')
    assert dict(loaded.kit_tables["many"]) == {"a": AcmeSettings(address="x"), "b": AcmeSettings(address="y")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[many.a]\n", "many.a.address is missing, expected text."),
        ("many = 3\n", "many is 3, expected a table."),
        ("[many]\na = 3\n", "many.a is 3, expected a table"),
        ('[many."A b"]\naddress = "x"\n', 'many."A b" cannot be used, expected a name'),
        ('[many.a]\nadress = "x"\n', "Did you mean 'address'?"),
        ("[acme]\n", "acme.address is missing, expected text."),
        ("acme = 3\n", "acme is 3, expected a table."),
        ("[acmee]\n", "Did you mean 'acme'?"),
        ('[acme]\nadress = "x"\n', "Did you mean 'address'?"),
        ('[acme]\naddress = "x"\nmode = "fats"\n', "Did you mean 'fast'?"),
        ('[acme]\naddress = "x"\nshare = 1.0\n', "acme.share is 1.0, expected float < 1.0."),
        ('[acme]\naddress = "x"\nsteps = [1, "a"]\n', "acme.steps.1 cannot be used, expected int"),
        (
            '[acme]\naddress = "x"\nlimits = { most = 0 }\n',
            "acme.limits.most is 0, expected a whole number of 1",
        ),
        ('[acme]\naddress = "x"\nlimits = { least = 0 }\n', "there is no setting acme.limits.least."),
        ('[acme]\naddress = "x"\nnickname = 1\n', "acme.nickname is 1, expected text"),
        ('[acme]\naddress = "x"\nmode = "exact"\nshare = 0.75\n', "acme cannot be used, expected share of at most 0.5"),
    ],
)
def test_a_table_of_a_kit_is_read_as_strictly_as_ours(text: str, says: str) -> None:
    assert says in str(refused(text))


def test_a_table_of_a_kit_that_is_not_in_use_is_an_unknown_key() -> None:
    assert refused('[acme]\naddress = "x"\n', None).code == "settings_unknown_key"


def test_a_kit_whose_settings_cannot_be_imported_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    loaded = parse("[acme_broken]\nx = 1\n[tasks.a]\n")
    assert loaded.declared
    assert "acme_broken" not in loaded.kit_tables
    assert "no_such_module:Settings" in caplog.text


def test_reading_settings_imports_no_policy_learner_or_world() -> None:
    parse('[tasks.a]\nfamily = "spinner"\n')
    assert not any(name == "acme" or name.startswith("acme.") for name in sys.modules)
