"""Every kind of error in headway.toml, and its message."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway import settings
from headway.nouns.errors import InvalidSettings

TASK = '[tasks.route]\nactions = ["small", "large"]\n'


def refused(text: str) -> InvalidSettings:
    with pytest.raises(InvalidSettings) as caught:
        settings.parse(text, directory=Path(), environ={})
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("x =", 1, 4, "Invalid value"),
        ("[tasks.a]\nfloor = \n", 2, 9, "Invalid value"),
        ("[tasks.a\n", 1, 9, "Expected ']'"),
        ("a = [1,", 1, 8, "Invalid value"),
        ("[tasks.a]\n[tasks.a]\n", 2, 9, "Cannot declare"),
        ("[tasks.a]\nseed = 1\nseed = 2\n", 3, 9, "Cannot overwrite"),
        ('[tasks.a]\nworld = "x\n', 2, 11, "Illegal character"),
        ("[tasks.a]\nseed = " + "9" * 100_000, 2, 8, "A whole number has more than 3,000 digits"),
        ('# fine\nkey = """never ends\n', 3, 1, "Unterminated string"),
    ],
)
def test_a_syntax_error_gives_line_and_column(text: str, line: int, column: int, says: str) -> None:
    error = refused(text)
    assert error.code == "settings_bad_toml"
    assert error.message.startswith(f"headway.toml:{line}:")
    assert says in error.message
    # Python's reader counts the column from the start or the end of the token; both are accepted.
    number = int(error.message.split(":")[2])
    assert abs(number - column) <= 1
    assert f"(line {line}, column {number})" in error.message


def test_a_file_that_is_nested_too_deeply_is_refused() -> None:
    assert refused("a = " + "[" * 5000).code == "settings_bad_toml"


@pytest.mark.parametrize(
    ("text", "path", "near"),
    [
        ("[task.a]\n", "task", "tasks"),
        ("[tasks.a]\nkindd = 1\n", "tasks.a.kindd", "kind"),
        ("[tasks.next.action]\n", "tasks.next.action", "actions"),
        ('[upstreams.a]\nurl = "http://x"\nmodel = "m"\nkey = "sk-secret"\n', "upstreams.a.key", "key_env"),
        ("[server]\nprot = 1\n", "server.prot", "port"),
        ("[store]\ndurable = 1\n", "store.durable", "durability"),
        ("[watch]\nintervals = 1\n", "watch.intervals", "interval_s"),
        (TASK + 'rules = [{ when = "step > 1", uses = "small" }]\n', "tasks.route.rules.0.uses", "use"),
        (TASK + 'roles = { a = { primery = "small" } }\n', "tasks.route.roles.a.primery", "primary"),
        (TASK + 'explore = { kinds = "none" }\n', "tasks.route.explore.kinds", "kind"),
        (TASK + 'encoder = { uri = "http://x" }\n', "tasks.route.encoder.uri", "url"),
        (TASK + "guards = { x = { tolerence = 1 } }\n", "tasks.route.guards.x.tolerence", "tolerance"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(text: str, path: str, near: str) -> None:
    error = refused(text)
    assert error.code == "settings_unknown_key"
    assert f"headway.toml: there is no setting {path}." in error.message
    assert f"Did you mean '{near}'?" in error.hint
    assert "sk-secret" not in str(error)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('kind = "choise"', 'kind is "choise", expected one of "choice", "reply", "ranking"'),
        ("kind = 3", "kind is 3, expected one of"),
        ('family = "bandits"', "Did you mean 'bandit'?"),
        ('family = "recurrent"', 'expected one of "bandit"'),
        ("reward = 1.0", "reward is 1.0, expected a table of signals"),
        ("reward = {}", "expected a table of signals"),
        ('reward = "reward_v9"', "Did you mean 'reward_v"),
        ('reward = { solved = "star" }', 'tasks.route.reward.solved is "star", expected a weight'),
        ("reward = { solved = true }", "reward.solved is true, expected a weight"),
        ("reward = { solved = nan }", "reward.solved is nan, expected a weight"),
        ("reward = { solved = { wait = 1 } }", "Did you mean 'weight'?"),
        ('reward = { solved = { transform = "clip" } }', "low or high"),
        ("reward = { failed = -1 }", "reward.failed is -1, expected no weight: on_failure"),
        ("reward = { safety_flag = -1 }", "it is a gate"),
        ('reward = { a = 2.0 }\ncombine = "multiplicative"', "a weight from 0 to 1"),
        ('combine = "sum"', 'combine is "sum", expected one of'),
        ('required = "solved"', 'required is "solved", expected a list of texts'),
        ('required = ["failed"]', "'failed' does not"),
        ("required = [1]", "required.0 is 1, expected text"),
        ("range = [1, -1]", "the lower one first"),
        ("range = [0, 0]", "the lower one first"),
        ("range = [0]", "two finite numbers"),
        ("range = [0, inf]", "two finite numbers"),
        ("range = [false, true]", "two finite numbers"),
        ("on_failure = -3", "within the range [-1, 1]"),
        ('on_failure = "ignore"', '"exclude" or a number'),
        ("on_censored = nan", '"exclude" or a number'),
        ("on_censored = true", '"exclude" or a number'),
        ("reward_after_s = 0", "a number above 0"),
        ('rules = "x"', 'rules is "x", expected a list'),
        ("rules = [1]", "rules.0 is 1, expected a table"),
        ('rules = [{ use = "small" }]', "rules.0.when is missing, expected a condition"),
        ('rules = [{ when = "step > 1" }]', "rules.0.use is missing, expected an action"),
        ('rules = [{ when = "step > 1", use = "smal" }]', "Did you mean 'small'?"),
        ('rules = [{ when = "task_complexity > 1", use = "small" }]', "Did you mean 'task_complexity_score'?"),
        ('rules = [{ when = "step >", use = "small" }]', "rules.0.when: The condition"),
        ('rules = [{ when = "__import__(1)", use = "small" }]', "rules.0.when: The condition"),
        ('rules = [{ when = 1, use = "small" }]', "rules.0.when is 1, expected text"),
        ('fallback = "medium"', "one of this task's actions. Known: 'large', 'small'."),
        ('state = ["a b"]', "'a b' is not one"),
        ('state = ["role"]', "'role' is built in"),
        ("roles = 1", "roles is 1, expected a table"),
        ("roles = { a = 1 }", "roles.a is 1, expected a table with primary"),
        ("roles = { a = {} }", "roles.a.primary is missing"),
        ('roles = { a = { primary = "huge" } }', "one of this task's actions"),
        ('roles = { a = { primary = "small", triggers = ["step > 1"] } }', "roles.a.fallback is missing"),
        ('roles = { a = { primary = "small", fallback = "large", triggers = ["x > 1"] } }', "roles.a.triggers.0: "),
        ('encoder = "minilmm"', "Did you mean 'minilm'?"),
        ("encoder = 3", 'expected one of "hashing"'),
        ('encoder = { url = "http://x" }', "encoder.model is missing"),
        ('encoder = { model = "m" }', "encoder.url is missing"),
        ('explore = "greedy"', 'expected one of "epsilon"'),
        ("explore = { value = 1 }", "explore.kind is missing"),
        ('explore = { kind = "epsilon", value = 1.5 }', "above 0 and up to 1"),
        ('explore = { kind = "softmax", value = 0 }', "a number above 0"),
        ('explore = { kind = "thompson", value = 0 }', "a number above 0"),
        ('explore = { kind = "none", value = 1 }', 'no value: "none" takes none'),
        ("floor = -0.1", "a number from 0 to 1"),
        ('floor = "0.1"', 'floor is "0.1", expected a number'),
        ("floor = true", "floor is true, expected a number"),
        ("floor = inf", "floor is inf"),
        ("confidence_floor = 2", "a number from 0 to 1"),
        ("sticky = 1", "sticky is 1, expected true or false"),
        ("episode_timeout_s = -1", "a number above 0"),
        ('online = "yes"', 'one of "frozen", "live"'),
        ("costs = { medium = 1 }", "one of this task's actions"),
        ("costs = { small = -1 }", "costs.small is -1, expected a number of 0 or more"),
        ("costs = [1]", "expected a table"),
        ("cost_weight = -1", "a number of 0 or more"),
        ("seed = 1.5", "a whole number from 0"),
        ("seed = -1", "a whole number from 0"),
        ("retrain_after = 0", "a whole number from 1"),
        ("retrain_after = true", "a whole number from 1"),
        ('promote = "always"', 'one of "ask", "auto"'),
        ("gate = false", 'gate is false, expected one of "on", "off"'),
        ("margin = -0.1", "a number of 0 or more"),
        ("guards = { cost = -1 }", "guards.cost is -1"),
        ('guards = { cost = { tolerance = 1, direction = "down" } }', 'one of "lower", "higher"'),
        ('world = ""', "text of 1 to 500 characters"),
        ('world = "a\\u0000b"', "without control characters"),
        ("world = 1979-05-27", "expected text in quotes"),
        ("world = 12", "world is 12, expected text"),
        (f'world = "{"x" * 501}"', "text of 1 to 500 characters"),
        ("margin = 1" + "0" * 400, "a number of 0 or more"),
    ],
)
@pytest.mark.kits("*")
def test_a_wrong_value_is_named_with_what_was_expected(line: str, says: str) -> None:
    error = refused(TASK + line + "\n")
    assert error.message.startswith("headway.toml: tasks.route.")
    assert says in str(error)
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('actions = "mutation"', '"mutations"'),
        ("actions = []", "at least one action"),
        ('actions = ["a", "a"]', "'a' is there twice"),
        ('actions = ["a", ""]', "actions.1"),
        ('kind = "ranking"\nrules = []', 'rules is for tasks with kind = "choice"; this one has kind = "ranking"'),
        ('kind = "ranking"\nsticky = true', 'sticky is for tasks with kind = "choice"'),
    ],
)
@pytest.mark.kits("*")
def test_actions_and_keys_must_fit_the_kind(line: str, says: str) -> None:
    assert says in str(refused(f"[tasks.a]\n{line}\n"))


UPSTREAM = '[upstreams.a]\nmodel = "m"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (UPSTREAM, "upstreams.a.url is missing, expected an address"),
        ('[upstreams.a]\nurl = "http://x"\n', "upstreams.a.model is missing"),
        (UPSTREAM + "url = 3\n", "upstreams.a.url is 3"),
        (UPSTREAM + 'url = "ftp://x"\n', "only http and https"),
        (UPSTREAM + 'url = "gopher://x"\n', "only http and https"),
        (UPSTREAM + 'url = "localhost:8000"\n', "only http and https"),
        (UPSTREAM + 'url = "http://"\n', "expected an address"),
        (UPSTREAM + 'url = "http://x:99999"\n', "expected an address"),
        (UPSTREAM + 'url = "http://[::1"\n', "expected an address"),
        (UPSTREAM + 'url = "http://a b"\n', "expected an address"),
        (UPSTREAM + 'url = "http://me:hunter2@x/"\n', "without user or password"),
        (UPSTREAM + 'url = "http://x/?token=hunter2"\n', "without '?' and '#'"),
        (UPSTREAM + 'url = "http://x"\nkey_env = "sk-hunter2"\n', "the name of an environment variable"),
        (UPSTREAM + 'url = "http://x"\nprice_in = -1\n', "a number of 0 or more"),
        (UPSTREAM + 'url = "http://x"\ntimeout_s = 0\n', "above 0 and up to 3600"),
        ('[upstreams."A b"]\nurl = "http://x"\nmodel = "m"\n', "at most 64 of a-z"),
        ("upstreams = 3\n", "upstreams is 3, expected a table"),
        ("[upstreams]\na = 3\n", "upstreams.a is 3, expected a table"),
        ("[tasks.Route]\n", "tasks.Route cannot be used, expected a name"),
        ('[tasks."a b"]\n', 'tasks."a b" cannot be used'),
        ("tasks = []\n", "tasks is [], expected a table"),
        ("[tasks]\na = 1\n", "tasks.a is 1, expected a table"),
        ("[server]\nport = 70000\n", "a whole number from 0 to 65535"),
        ('[server]\nport = "8765"\n', 'server.port is "8765"'),
        ("[server]\nhost = 1\n", "server.host is 1, expected text"),
        ("[server]\nworkers = 2\n", "postgresql://"),
        ("[server]\nmax_body_bytes = 2000000\nmax_batch_bytes = 1000000\n", "at least max_body_bytes"),
        ('[server]\nhosts = "x"\n', "a list of texts"),
        ('[store]\nurl = "mysql://me:hunter2@x"\n', "store.url cannot be used"),
        ('[store]\nurl = "postgresql://"\n', "store.url cannot be used"),
        ('[store]\nurl = "postgresql://[x"\n', "store.url cannot be used"),
        ('[store]\ndurability = "never"\n', 'one of "power", "process"'),
        ("[store]\nqueue = 0\n", "a whole number from 1"),
        ('[watch]\nwindow = "2-6"\n', '"02:00-06:00"'),
        ('[watch]\nwindow = "24:00-06:00"\n', '"02:00-06:00"'),
        ("[watch]\ninterval_s = 0\n", "above 0"),
        ("server = 1\n", "server is 1, expected a table"),
    ],
)
def test_other_tables_are_checked_as_strictly_and_no_secret_is_repeated(text: str, says: str) -> None:
    error = refused(text)
    assert says in str(error)
    assert "hunter2" not in str(error)


def test_a_file_that_is_not_text_or_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_bytes(b"# fine\n\xff\xfe")
    with pytest.raises(InvalidSettings, match="line 2") as caught:
        settings.load(tmp_path, {})
    assert caught.value.code == "settings_bad_toml"
    (tmp_path / "headway.toml").unlink()
    (tmp_path / "headway.toml").mkdir()
    with pytest.raises(InvalidSettings) as caught:
        settings.load(tmp_path, {})
    assert caught.value.code == "settings_unreadable"


def test_the_error_names_the_file_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("[tasks.a]\nfloor = 7\n")
    with pytest.raises(InvalidSettings) as caught:
        settings.load(tmp_path, {})
    assert str(tmp_path / "headway.toml") in str(caught.value)


@pytest.mark.parametrize("value", ["0x{}", "[1, 0x{}]", "{{ a = 0b1{} }}"])
def test_an_integer_that_cannot_be_printed_is_refused(value: str) -> None:
    error = refused(f"{TASK}seed = {value.format('1' * 100_000)}\n")
    assert error.code == "settings_bad_value"
    assert "tasks.route.seed" in error.message
    assert "A whole number has more than 3,000 digits." in error.message
