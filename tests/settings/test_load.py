"""Settings from a directory and an environment: values, defaults and the config hash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headway import settings
from headway.nouns.errors import InvalidInput, InvalidSettings, UnknownName
from headway.nouns.kit import catalogue
from headway.nouns.records import Candidate, Situation
from headway.project.decide.serving import rules_policy
from headway.reward.signals import Term
from headway.settings.configuration import config_hash
from headway.settings.environment import project_directory
from headway.settings.read import KEYS
from headway.settings.schema import EncoderEndpoint, GuardSettings
from tests.opinions import opinion_on

COMPLETE = """
[tasks.route]
kind = "choice"
actions = ["small", "large"]                  # names of [upstreams.*], or any strings
reward = { solved = 1.0, cost_usd = -20.0 }   # signal = weight; others are stored, not counted
rules = [{ when = "task_complexity_score > 0.8 or primary_failure_count >= 2", use = "large" }]
range = [-1, 1]
promote = "ask"

[upstreams.small]
url = "http://127.0.0.1:11434/v1"
model = "qwen3:4b"

[upstreams.large]
url = "https://llm.example.com/v1"
model = "big-model"
key_env = "LARGE_API_KEY"

[tasks.mutate]
kind = "choice"
actions = "mutations"
world = "prompts"
reward = { passed = 1.0, tokens = -0.0002 }

[tasks.next-action]
kind = "ranking"
reward = { composite_delta = 1.0 }
retrain_after = 50
"""


def parse(text: str, **environ: str) -> settings.Settings:
    return settings.parse(text, directory=Path(), environ=environ)


def test_without_a_file_a_task_is_created_on_first_use(tmp_path: Path) -> None:
    loaded = settings.load(tmp_path, {})
    assert (loaded.file, loaded.declared, dict(loaded.tasks)) == (None, False, {})
    task = loaded.task("anything.at-all_9")
    assert (task.kind, task.family, task.actions) == ("choice", "bandit", ())
    assert loaded.rewards("anything").outcome({"reward": 0.5}, age_s=0.0).reward == 0.5


def test_the_environment_is_that_of_the_process_unless_another_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_POLICY", "off")
    monkeypatch.setenv("HEADWAY_DIR", str(tmp_path))
    assert settings.load(tmp_path).policy_override == "off"
    assert settings.load(tmp_path, {}).policy_override is None
    assert project_directory() == tmp_path
    assert project_directory("other") == Path("other")
    assert project_directory(None, {}) == Path()


def test_a_missing_directory_has_no_settings_file(tmp_path: Path) -> None:
    assert settings.load(tmp_path / "nowhere", {}).file is None
    (tmp_path / "plain").write_text("")
    assert settings.load(tmp_path / "plain", {}).file is None


@pytest.mark.kits("*")
def test_the_complete_example_loads() -> None:
    loaded = parse(COMPLETE)
    families = {name: task.family for name, task in loaded.tasks.items()}
    assert families == {"route": "bandit", "mutate": "bandit", "next-action": "ranker"}
    assert loaded.task("mutate").actions == catalogue().all("actions")["mutations"]
    assert loaded.task("next-action").reward == {"composite_delta": Term()}
    assert loaded.upstream("large").key_env == "LARGE_API_KEY"


def test_an_undeclared_task_is_an_error_once_any_is_declared() -> None:
    loaded = parse("[tasks.route]\n")
    with pytest.raises(UnknownName) as caught:
        loaded.task("rout")
    assert caught.value.code == "unknown_task"
    assert "Did you mean 'route'?" in str(caught.value)
    assert not parse("[server]\nport = 1\n").declared, "a file without tasks declares none"


@pytest.mark.parametrize("name", ["", "Route", "a b", "../x", "a\n", ".a", "-a", "x" * 65, "ä", 3, None])
def test_a_task_name_that_cannot_be_a_file_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse("").task(name)
    assert caught.value.code == "bad_task_name"


def test_a_file_with_a_byte_order_mark_and_windows_lines_loads(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_bytes(b"\xef\xbb\xbf[tasks.route]\r\nseed = 3\r\n")
    loaded = settings.load(tmp_path, {})
    assert loaded.task("route").seed == 3
    assert loaded.file == tmp_path / "headway.toml"


@pytest.mark.kits("*")
def test_loaded_settings_cannot_be_changed() -> None:
    loaded = parse(COMPLETE)
    with pytest.raises(AttributeError):
        loaded.task("route").floor = 0.5  # type: ignore[misc]
    with pytest.raises(TypeError):
        loaded.tasks["other"] = loaded.task("route")  # type: ignore[index]
    with pytest.raises(TypeError):
        loaded.task("route").reward["x"] = Term()  # type: ignore[index]


def test_defaults_of_the_range_follow_the_reward() -> None:
    loaded = parse('[tasks.a]\nrange = [0, 5]\n[tasks.b]\nreward = "reward_v1"\n[tasks.c]\nreward = "mine:score"\n')
    assert (loaded.task("a").range, loaded.task("a").on_failure) == ((0.0, 5.0), 0.0)
    assert (loaded.task("b").range, loaded.task("b").on_failure) == ((-2.0, 2.0), -2.0)
    assert (loaded.task("c").required, loaded.task("c").range) == ((), (-1.0, 1.0))


def test_reading_settings_does_not_run_the_reward_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit\n")
    (tmp_path / "headway.toml").write_text('[tasks.c]\nreward = "mine:score"\n')
    assert settings.load(tmp_path, {}).task("c").reward == "mine:score"


def test_a_reward_function_comes_from_the_project_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(decision, signals):\n    return 0.25\n")
    (tmp_path / "headway.toml").write_text('[tasks.c]\nreward = "mine:score"\nrequired = ["x"]\n')
    rewards = settings.load(tmp_path, {}).rewards("c")
    assert rewards.outcome({}, age_s=0.0).status == "pending"
    assert rewards.outcome({"x": 1.0}, age_s=0.0).reward == 0.25


def test_explore_is_a_name_or_a_table() -> None:
    text = '[tasks.a]\nexplore = "thompson"\n[tasks.b]\nexplore = { kind = "softmax", value = 0.5 }\n[tasks.c]\n'
    loaded = parse(text + '[tasks.d]\nexplore = { kind = "squarecb" }\n[tasks.e]\nexplore = "epsilon"\n')
    kinds = {name: (task.explore.kind, task.explore.value) for name, task in loaded.tasks.items()}
    expected = {"a": ("thompson", 1.0), "b": ("softmax", 0.5), "c": ("epsilon", 0.1), "d": ("squarecb", 100.0)}
    assert kinds == {**expected, "e": ("epsilon", 0.1)}


def test_a_table_of_roles_becomes_rules_that_decide() -> None:
    text = """
    [tasks.route]
    actions = ["small", "large", "huge"]
    rules = [{ when = "open_files > 9", use = "huge", role = "planner" }]
    fallback = "huge"
    state = ["open_files"]
    [tasks.route.roles.planner]
    primary = "small"
    fallback = "large"
    triggers = ["task_complexity_score > 0.8", "primary_failure_count >= 2"]
    """
    task = parse(text).task("route")
    rules = rules_policy(json.loads(settings.config(task)))

    def chosen(role: str, **state: float) -> str:
        situation = Situation(task="route", state=state, role=role)
        opinion = opinion_on(rules, situation, [Candidate(name) for name in task.actions])
        return task.actions[int(opinion.probabilities.argmax())]

    assert chosen("planner", task_complexity_score=0.5, primary_failure_count=0) == "small"
    assert chosen("planner", task_complexity_score=0.9, primary_failure_count=0) == "large"
    assert chosen("planner", task_complexity_score=0.1, primary_failure_count=2) == "large"
    assert chosen("planner", task_complexity_score=0.9, open_files=10) == "large", "the role's triggers come first"
    assert chosen("planner", task_complexity_score=0.5, open_files=10) == "huge"
    assert chosen("coder", task_complexity_score=0.1) == "huge"


def test_guards_costs_and_an_encoder_endpoint_are_read() -> None:
    text = """
    [tasks.a]
    actions = ["x", "y"]
    costs = { x = 0, y = 2.5 }
    cost_weight = 0.1
    guards = { latency_s = 0.5, solved = { tolerance = 0.01, direction = "higher" } }
    encoder = { url = "https://e.example.com/v1/", model = "embed", key_env = "EMBED_KEY" }
    """
    loaded = parse(text, EMBED_KEY="secret")
    task = loaded.task("a")
    assert task.costs == {"x": 0.0, "y": 2.5}
    assert task.guards["latency_s"] == GuardSettings(tolerance=0.5)
    assert task.guards["solved"] == GuardSettings(tolerance=0.01, direction="higher")
    assert task.encoder == EncoderEndpoint(url="https://e.example.com/v1", model="embed", key_env="EMBED_KEY")
    assert loaded.key("EMBED_KEY") == "secret"


@pytest.mark.kits("*")
def test_only_named_keys_are_kept_and_no_key_is_shown() -> None:
    loaded = parse(COMPLETE, LARGE_API_KEY="sk-very-secret", OTHER="x")
    assert dict(loaded.keys) == {"LARGE_API_KEY": "sk-very-secret"}
    assert "sk-very-secret" not in repr(loaded)
    with pytest.raises(InvalidSettings) as caught:
        parse(COMPLETE).key("LARGE_API_KEY")
    assert caught.value.code == "missing_key"


@pytest.mark.kits("*")
def test_an_unknown_upstream_is_an_error() -> None:
    with pytest.raises(UnknownName) as caught:
        parse(COMPLETE).upstream("larg")
    assert caught.value.code == "unknown_upstream"
    assert "Did you mean 'large'?" in str(caught.value)
    with pytest.raises(UnknownName, match=r"Declare \[upstreams.x\]"):
        parse("").upstream("x")


@pytest.mark.parametrize("value", ["off", "current", "bandit@4f2a", "rules@0"])
def test_the_policy_variable_overrides(value: str) -> None:
    assert parse("", HEADWAY_POLICY=value).policy_override == value


@pytest.mark.kits("*")
def test_other_variables_are_read_and_foreign_ones_ignored(tmp_path: Path) -> None:
    loaded = parse("", HEADWAY_CACHE=str(tmp_path), HEADWAY_DATA="x", HEADWAY_POLICY="", PATH="/bin")
    assert (loaded.cache, loaded.policy_override) == (tmp_path, None)
    assert parse("", XDG_CACHE_HOME="/c", HOME="/h").cache == Path("/c/headway")
    folder = "Library/Caches" if sys.platform == "darwin" else ".cache"
    assert parse("", HOME="/h").cache == Path("/h") / folder / "headway"
    assert parse("").cache == Path(".headway/cache")
    loaded = parse('[store]\nurl = "sqlite"\n', HEADWAY_STORE_URL="postgresql://u:pw@db/x")
    assert loaded.store.url == "postgresql://u:pw@db/x"
    assert not loaded.store.embedded
    assert "pw" not in repr(loaded)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"HEADWAY_POLICY": "on"}, "expected off, current or a policy reference"),
        ({"HEADWAY_POLICY": "curent"}, "Did you mean 'current'?"),
        ({"HEADWAY_POLICY": "bandit@xyz"}, "bandit@4f2a"),
        ({"HEADWAY_POLCY": "off"}, "Did you mean 'HEADWAY_POLICY'?"),
        ({"HEADWAY_STORE_URL": "mysql://root:pw@db"}, "postgresql://user@host/database"),
    ],
)
def test_a_variable_that_cannot_be_used_is_an_error(environ: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        parse("", **environ)
    assert caught.value.code == "settings_bad_variable"
    assert says in str(caught.value)
    assert "pw" not in str(caught.value)


@pytest.mark.kits("postgres")
def test_several_servers_may_share_a_postgresql_store() -> None:
    loaded = parse('[server]\nworkers = 4\n[store]\nurl = "postgresql://u@db/x"\n')
    assert loaded.server.workers == 4
    assert loaded.server.loopback
    assert not parse('[server]\nhost = "0.0.0.0"\n').server.loopback


def test_the_config_hash_changes_only_with_settings_that_affect_acting() -> None:
    base = parse('[tasks.a]\nactions = ["x", "y"]\n').task("a")
    other = ["reward = { z = 2.0 }", 'promote = "auto"', 'gate = "off"', "margin = 0.1", "retrain_after = 9"]
    for line in other:
        assert config_hash(parse(f'[tasks.a]\nactions = ["x", "y"]\n{line}\n').task("a")) == config_hash(base)
    acting = [
        "floor = 0.1", 'fallback = "x"', 'explore = "thompson"', "confidence_floor = 0.5", "sticky = true", "seed = 1",
        'online = "live"', "cost_weight = 1", "costs = { x = 1 }", 'rules = [{ when = "step > 1", use = "y" }]',
        'family = "cql"', 'encoder = "minilm"', 'roles = { a = { primary = "x" } }', "episode_timeout_s = 1",
    ]  # fmt: skip
    hashes = {config_hash(parse(f'[tasks.a]\nactions = ["x", "y"]\n{line}\n').task("a")) for line in acting}
    assert len(hashes) == len(acting)
    assert config_hash(base) not in hashes
    body = json.loads(settings.config(base))
    assert body["actions"] == ["x", "y"]


def test_the_config_hash_is_the_same_in_another_process() -> None:
    code = (
        "from pathlib import Path; from headway import settings;"
        "from headway.settings.configuration import config_hash;"
        "print(config_hash(settings.parse(settings.example(), directory=Path(), environ={}).task('route')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == config_hash(parse(settings.example()).task("route"))


values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["exclude", "x"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["kind", "value", "when", "use", "weight", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(entry)}' for key, entry in value.items())} }}"
    return str(value)


@given(st.sampled_from([(table, key) for table, keys in KEYS.items() for key in keys]), values)
def test_any_value_of_any_key_is_either_read_or_refused_by_name(place: tuple[str, str], value: Any) -> None:
    table, key = place
    heading = f"{table}.a" if table in ("tasks", "upstreams") else table
    refusal = None
    try:
        parse(f"[{heading}]\n{key} = {toml(value)}\n")
    except InvalidSettings as error:
        refusal = str(error)
    assert refusal is None or heading in refusal or "headway.toml:2:" in refusal
