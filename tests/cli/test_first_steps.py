"""The first minutes: a folder with a headway.toml, connections for agents, the link to the page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from headway import open as open_project
from headway.kits.demo.planted import holds_project, prepare
from headway.settings import load
from tests.cli.terminal import headway

TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { solved = 1.0, cost_usd = -20.0 }
[upstreams.small]
url = "http://127.0.0.1:9/v1"
model = "a"
[upstreams.large]
url = "http://127.0.0.1:9/v1"
model = "b"
"""


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    folder = tmp_path / "declared"
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    return folder


def test_a_folder_with_only_a_headway_toml_is_a_project(declared: Path, empty: Path) -> None:
    done = headway("-C", declared, "status")
    assert done.code == 0, done.err
    assert "route" in done.out
    assert headway("-C", empty, "status", "--json").error["code"] == "no_project"


def test_headway_dir_names_the_project_where_nothing_else_does(
    declared: Path, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(empty)
    monkeypatch.setenv("HEADWAY_DIR", str(declared))
    assert "route" in headway("status").out
    with open_project() as project:
        assert project.tasks() == ["route"]
    assert headway("-C", empty, "status", "--json").error["code"] == "no_project"
    assert not list(empty.iterdir())


def test_init_says_what_the_weights_mean_and_its_next_command_runs(empty: Path) -> None:
    done = headway("-C", empty, "init")
    assert "You value solved = 1 at $0.05" in done.out
    assert "one solved answer is worth $0.05" in (empty / "headway.toml").read_text("utf-8")


def test_init_names_the_options_that_it_cannot_apply(declared: Path) -> None:
    before = (declared / "headway.toml").read_text("utf-8")
    refused = headway("-C", declared, "init", "--task", "other", "--reward", "solved=1", "--json")
    assert refused.code == 1
    assert refused.error["code"] == "file_exists"
    assert "so --task, --reward cannot be applied" in refused.error["message"]
    assert (declared / "headway.toml").read_text("utf-8") == before
    assert headway("-C", declared, "init").code == 0


def test_init_may_be_repeated_with_the_same_options(empty: Path) -> None:
    words = ("-C", empty, "init", "--task", "route", "--reward", "solved=1", "--actions", "small,large")
    assert [headway(*words).code for _ in range(2)] == [0, 0]
    assert headway(*words, "--reward", "cost=-1").code == 1


UPSTREAMS = ("--upstream", "small", "http://127.0.0.1:9/v1", "a", "--upstream", "large", "http://127.0.0.1:9/v1", "b")


@pytest.mark.kits("proxy")
@pytest.mark.parametrize(
    ("words", "small", "large"),
    [
        (("--price", "large=0.15/0.60"), (0.0, 0.0), (0.15, 0.6)),
        (("--price", "0.05/0.10", "--price", "3/15"), (0.05, 0.1), (3.0, 15.0)),
        (("--price", "large=3/15", "--price", "small=0/1"), (0.0, 1.0), (3.0, 15.0)),
    ],
)
def test_init_writes_the_price_of_each_upstream(
    empty: Path, words: tuple[str, ...], small: tuple[float, float], large: tuple[float, float]
) -> None:
    done = headway("-C", empty, "init", "--task", "route", "--reward", "solved=1", *UPSTREAMS, *words)
    assert done.code == 0, done.err
    settings = load(empty)
    assert settings.task("route").actions == ("small", "large")
    assert [(each.price_in or 0.0, each.price_out or 0.0) for each in settings.upstreams.values()] == [small, large]


@pytest.mark.kits("proxy")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--price", "3/15"), "whose price is it?"),
        (("--price", "3/15", "--price", "large=3/15"), "whose price is it?"),
        (("--price", "huge=3/15"), "--price huge: there is no --upstream of that name"),
        (("--price", "large=3"), "--price large=3: write US dollars per million tokens in and out"),
        (("--price", "large=-3/1"), "such as large=0.15/0.60"),
        (("--price", "large=1/1", "--price", "large=2/2"), "given twice"),
    ],
)
def test_init_refuses_a_price_that_is_not_clear(empty: Path, words: tuple[str, ...], said: str) -> None:
    done = headway("-C", empty, "init", "--task", "route", *UPSTREAMS, *words)
    assert done.code != 0
    assert said in " ".join(done.err.split())
    assert not (empty / "headway.toml").exists()


@pytest.mark.kits("proxy")
@pytest.mark.parametrize(
    ("url", "model", "price"),
    [
        ("https://api.openai.com/v1", "gpt-4o-mini", (0.15, 0.6)),
        ("https://api.openai.com/v1", "gpt-4o-mini-2024-07-18", (0.15, 0.6)),
        ("https://api.anthropic.com/v1", "claude-sonnet-4-5-20250929", (3.0, 15.0)),
        ("https://proxy.example/v1", "gpt-4o-mini", None),
        ("https://api.openai.com/v1", "gpt-of-tomorrow", None),
    ],
)
def test_init_suggests_the_public_price_of_a_known_model_with_its_date(
    empty: Path, url: str, model: str, price: tuple[float, float] | None
) -> None:
    words = ("-C", empty, "init", "--task", "route", "--upstream", "large", url, model)
    done = headway(*words)
    assert done.code == 0, done.err
    text = (empty / "headway.toml").read_text("utf-8")
    upstream = load(empty).upstreams["large"]
    if price is None:
        assert "# price_in" in text
        assert upstream.price_in is None
        assert "public price" not in text + done.out
        return
    day = re.search(r"price_in = .*# a suggestion: the public price of (\d{4}-\d\d-\d\d)", text)
    assert day is not None
    assert f"on {day[1]}; is that your price?" in done.out
    assert (upstream.price_in, upstream.price_out) == price


@pytest.mark.kits("proxy")
def test_a_price_that_is_named_replaces_the_public_one(empty: Path) -> None:
    upstream = ("--upstream", "large", "https://api.openai.com/v1", "gpt-4o-mini", "--price", "7/9")
    done = headway("-C", empty, "init", "--task", "route", *upstream)
    assert "is that your price" not in done.out
    assert load(empty).upstreams["large"].price_in == 7.0


@pytest.mark.parametrize("agent", ["claude", "cursor", "codex"])
@pytest.mark.kits("agents")
def test_connect_writes_its_own_entries_and_keeps_the_others(declared: Path, tmp_path: Path, agent: str) -> None:
    place = tmp_path / "agent"
    (place / ".cursor").mkdir(parents=True)
    others = {"mcpServers": {"other": {"command": "x"}}, "more": 1}
    for name in (".mcp.json", ".cursor/mcp.json"):
        (place / name).write_text(json.dumps(others), "utf-8")
    (place / "config.toml").write_text(
        'model = "o"\n\n[mcp_servers.headway]\ncommand = "old"\n\n[other]\nx = 1\n', "utf-8"
    )
    printed = headway("-C", declared, "connect", agent, "--in", place)
    assert printed.code == 0, printed.err
    assert str(declared) in printed.out
    for _ in range(2):  # the second time nothing changes
        done = headway("-C", declared, "connect", agent, "--in", place, "--write")
        assert done.code == 0, done.err
    assert "is as it should be" in done.out
    if agent == "codex":
        import tomllib

        written = tomllib.loads((place / "config.toml").read_text("utf-8"))
        assert written["mcp_servers"]["headway"]["args"] == ["-C", str(declared), "mcp"]
        assert (written["model"], written["other"]) == ("o", {"x": 1})
        return
    file = place / (".mcp.json" if agent == "claude" else ".cursor/mcp.json")
    document = json.loads(file.read_text("utf-8"))
    assert document["mcpServers"]["other"] == {"command": "x"}
    assert document["more"] == 1
    assert document["mcpServers"]["headway"]["args"] == ["-C", str(declared), "mcp"]
    if agent == "claude":
        hooks = json.loads((place / ".claude" / "settings.json").read_text("utf-8"))["hooks"]
        assert [len(rows) for rows in hooks.values()] == [1, 1]
        assert "hook --task route --latest" in hooks["PostToolUse"][0]["hooks"][0]["command"]


@pytest.mark.kits("agents")
def test_connect_leaves_a_broken_file_alone(declared: Path, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{ not json", "utf-8")
    assert (
        headway("-C", declared, "connect", "claude", "--in", tmp_path, "--write", "--json").error["code"]
        == "bad_configuration"
    )
    assert (tmp_path / ".mcp.json").read_text("utf-8") == "{ not json"


@pytest.mark.kits("agents")
def test_connect_openai_names_model_address_and_signal_of_this_project(declared: Path, empty: Path) -> None:
    done = headway("-C", declared, "connect", "openai", "--json")
    assert done.json["url"] == "http://127.0.0.1:8765/v1"
    assert any("headway/route" in step for step in done.json["steps"])
    assert any('{"solved": 1}' in step for step in done.json["steps"])
    (empty / "headway.toml").write_text("[tasks.route]\n", "utf-8")
    assert headway("-C", empty, "connect", "openai", "--json").error["code"] == "no_upstream"


def test_open_says_that_no_server_runs(declared: Path) -> None:
    assert headway("-C", declared, "open", "--json").error["code"] == "no_server"


def test_the_demo_takes_a_folder_of_its_own_beside_a_project(declared: Path, empty: Path) -> None:
    assert holds_project(declared)
    assert not holds_project(empty)
    prepare(empty)
    assert not holds_project(empty)  # an earlier demo's


def test_doctor_names_a_file_that_others_can_read(declared: Path) -> None:
    assert headway("-C", declared, "decide", "route", "x").code == 0
    store = declared / ".headway" / "headway.db"
    store.chmod(0o644)
    checks = {check["name"]: check for check in headway("-C", declared, "doctor", "--json").json["checks"]}
    assert not checks["permissions"]["ok"]
    assert checks["permissions"]["cure"].endswith(f"chmod 600 {store}")
    store.chmod(0o600)
    checks = {check["name"]: check for check in headway("-C", declared, "doctor", "--json").json["checks"]}
    assert checks["permissions"]["ok"]


@pytest.mark.kits("agents")
def test_the_next_command_of_a_dry_run_keeps_the_options_and_works(declared: Path, tmp_path: Path) -> None:
    file = tmp_path / "a log.csv"
    file.write_text("model,score,p,prompt\nsmall,1,0.5,a\nlarge,0,0.5,b\n", "utf-8")
    words = ["data", "import", file, "--task", "route", "--map", "action=model", "--map", "signal.solved=score"]
    words += ["--map", "propensity=p", "--map", "text=prompt", "--candidates", "small,large"]
    done = headway("-C", declared, *words, "--dry-run", "--json")
    assert done.code == 0, done.out
    program, *again = shlex.split(done.json["next"])
    assert program == "headway"
    assert again == ["-C", str(declared), *map(str, words)]
    assert headway(*again).code == 0


def test_suggested_commands_name_the_folder_in_each_part(declared: Path) -> None:
    from headway.cli.output import Output
    from headway.cli.verbs import Session

    both = Session(declared, Output()).command("headway init && headway status")
    assert both == f"headway -C {declared} init && headway -C {declared} status"


def test_the_next_step_after_the_list_of_keys_runs(declared: Path) -> None:
    for words in (["keys", "add", "bob", "--scope", "decide"], ["keys", "revoke", "bob"]):
        assert headway("-C", declared, *words).code == 0
    step = headway("-C", declared, "keys", "list", "--json").json["next"]
    assert headway(*shlex.split(step)[1:]).code == 0


def test_a_misspelt_signal_is_named_in_the_terminal(declared: Path) -> None:
    made = headway("-C", declared, "decide", "route", "x", "--json").json
    done = headway("-C", declared, "signal", made["id"], "sovled=1")
    assert "solved" in done.out + done.err
    assert "sovled" in headway("-C", declared, "status").err + headway("-C", declared, "status").out


@pytest.mark.kits("next_action")
def test_text_and_candidates_are_given_in_the_same_way_everywhere(project: Path) -> None:
    shared = ["--text", "Prove it", "--candidates", "small,large", "--json"]
    assert headway("-C", project, "decide", "route", *shared).json["action"] in ("small", "large")
    ranked = headway("-C", project, "rank", "route", *shared).json
    assert {row["name"] for row in ranked["ranking"]} == {"small", "large"}
    assert headway(*shlex.split(ranked["next"])[1:]).code == 0
    assert headway("-C", project, "score", "route", "large", "--text", "Prove it").code == 0
