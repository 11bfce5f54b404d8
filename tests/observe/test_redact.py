"""Secrets of every known shape are redacted at any position, and nothing else is."""

from __future__ import annotations

import random
import string
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, strategies as some

from headway.nouns.records import Candidate
from headway.nouns.redacted import spans, without
from headway.observe.redact import Redactor

redact = Redactor()
ROOT = Path(__file__).resolve().parents[2]
_LETTERS = string.ascii_letters + string.digits


def made_up(length: int, alphabet: str = _LETTERS, seed: int = 1) -> str:
    """Random, so that this file contains no real key, with a digit near the start, as in real keys."""
    rng = random.Random(seed)
    return "a7" + "".join(rng.choice(alphabet) for _ in range(length - 2))


HEX = "0123456789abcdef"
KEYS = {
    "openai": f"sk-{made_up(48)}",
    "openai project": f"sk-proj-{made_up(60)}_{made_up(40)}-{made_up(20)}",
    "anthropic": f"sk-ant-api03-{made_up(90)}AA",
    "aws": f"AKIA{made_up(16, string.ascii_uppercase + string.digits).upper()}",
    "github": f"ghp_{made_up(36)}",
    "github fine-grained": f"github_pat_{made_up(22)}_{made_up(59)}",
    "gitlab": f"glpat-{made_up(20)}",
    "slack": f"xoxb-123456789012-1234567890123-{made_up(24)}",
    "google": f"AIza{made_up(35)}",
    "stripe": f"sk_live_{made_up(24)}",
    "hugging face": f"hf_{made_up(34)}",
    "npm": f"npm_{made_up(36)}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{made_up(60)}",
    "sendgrid": f"SG.{made_up(22)}.{made_up(43)}",
    "groq": f"gsk_{made_up(52)}",
    "headway": f"hw_{made_up(64, HEX)}",
    "telegram": f"123456789:AA{made_up(33)}",
}
TOKENS = {
    "json web token": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{made_up(43)}",
}
PLACES = (
    "{}",
    "my key is {}, please use it",
    '{{"key": "{}"}}',
    "curl -H 'X-Key: {}' https://api.example.com/v1",
    "https://api.example.com/v1?key={}&page=2",
    "Schlüssel: {} 🙂",
    "line one\n{}\nline three",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("secret", [*KEYS.values(), *TOKENS.values()], ids=[*KEYS, *TOKENS])
def test_a_key_is_redacted_at_any_position(secret: str, place: str) -> None:
    clean = redact(place.format(secret))
    kind = "api-key" if secret in KEYS.values() else "token"
    assert clean == place.format(f"[redacted:{kind}]")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"Authorization: Bearer {made_up(40)}", made_up(40)),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        ("postgresql://bob:hunter2@db.example.com/x", "hunter2"),
        ("redis://:correct-horse@cache:6379", "correct-horse"),
        ('password = "Tr0ub4dor&3x"', "Tr0ub4dor&3x"),
        (f"export SERVICE_API_KEY={made_up(20)}", made_up(20)),
        (f"AWS_SECRET_ACCESS_KEY={made_up(20)}/{made_up(19)}", made_up(20)),
        (f'{{"client_secret": "{made_up(32, HEX)}"}}', made_up(32, HEX)),
    ],
)
def test_a_value_that_is_named_as_a_secret_is_redacted(text: str, secret: str) -> None:
    clean = redact(text)
    assert secret not in clean
    assert len(spans(clean)) == 1


def test_a_private_key_is_redacted_whole_and_in_parts() -> None:
    lines = [made_up(64, f"{_LETTERS}+/", seed) for seed in range(10)]
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
    assert redact(f"before {key} after") == "before [redacted:private-key] after"
    assert redact(f"before {key[:300]}") == "before [redacted:private-key]"
    for line in lines:
        assert line not in redact(key[-250:])
    assert redact(key.replace("\n", "\\n")) == "[redacted:private-key]"


def test_several_secrets_in_one_text_are_marked_separately() -> None:
    text = f"{KEYS['github']} and {KEYS['aws']} and {TOKENS['json web token']}"
    assert redact(text) == "[redacted:api-key] and [redacted:api-key] and [redacted:token]"
    assert [kind for *_, kind in spans(redact(text))] == ["api-key", "api-key", "token"]


@pytest.mark.parametrize(
    "text",
    [
        "Prove that sqrt(2) is irrational.",
        "See src/headway/observe/writer.py:120 and docs/reference/settings.md#store-redact.",
        "commit 8160fdf2a3b4c5d6e7f8091a2b3c4d5e6f708192",
        "dec_0197c1f2a3b47000a1b2c3d4e5f60718",
        "123e4567-e89b-12d3-a456-426614174000",
        "sk-learn-style-transformers-pipeline",
        "https://example.com/path?query=1#fragment",
        "git clone git@github.com:owner/repository.git",
        'token = tokenizer.encode("hello world 123")',
        "password = input()",
        'api_key = os.environ["OPENAI_API_KEY"]',
        'api_key = "YOUR_API_KEY_HERE_12345"',
        "API_KEY=$OPENAI_API_KEY_2",
        "max_tokens=4096, token_count=12345678",
        'tokenizer = "gpt-4-turbo-2024"',
        "eyJ is how base64 of a JSON object begins",
        "Bearer authentication is described in RFC 6750, section 2.1",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "the keyboard: 'qwertyuiop1234'",
        "+49 30 123456, 4111 1111 1111 1111, ann@example.com",
        "1.5e-3 + 0x7f - 12_345_678_901_234_567",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1",
    ],
)
def test_ordinary_text_and_code_are_not_changed(text: str) -> None:
    assert redact(text) is text


def test_the_standard_library_and_our_sources_contain_no_secret() -> None:
    folder = Path(sysconfig.get_paths()["stdlib"])
    names = [
        *sorted(folder.glob("*.py"))[::4],
        *sorted((ROOT / "src").rglob("*.py")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    alarms = []
    for name in names:
        for line in name.read_text("utf-8").splitlines():
            if name.name != "secrets.py" and redact(line) != line and "://" not in line:  # their examples are secrets
                alarms.append(f"{name.name}: {line.strip()[:100]}")
    assert alarms == []


def test_personal_data_is_redacted_if_the_settings_ask_for_it() -> None:
    people = Redactor(("email", "phone", "card"))
    text = "ann.lee@example.co.uk, +49 30 1234567, (555) 010-9999, 4111 1111 1111 1111, 4111 1111 1111 1112, no 1234567"
    marked = "[redacted:email], [redacted:phone], [redacted:phone], [redacted:card], 4111 1111 1111 1112, no 1234567"
    assert people(text) == marked
    assert people(f"key {KEYS['github']}") == f"key {KEYS['github']}"


def test_without_kinds_texts_are_not_scanned() -> None:
    text = KEYS["github"]
    assert Redactor(())(text) is text
    assert Redactor(()).state({"a": text}) == {"a": text}


def test_state_and_candidates_are_redacted_and_stay_distinct() -> None:
    state = {"note": f"use {KEYS['github']}", "n": 3, "vector": [1.0, 2.0]}
    assert redact.state(state) == {"note": "use [redacted:api-key]", "n": 3, "vector": [1.0, 2.0]}
    plain = {"note": "nothing"}
    assert redact.state(plain) is plain
    offered = (Candidate(KEYS["github"]), Candidate(KEYS["aws"]), Candidate("small", {"why": KEYS["google"]}))
    assert redact.candidates(offered) == (
        Candidate("[redacted:api-key]"),
        Candidate("[redacted:api-key] (2)"),
        Candidate("small", {"why": "[redacted:api-key]"}),
    )
    arms = (Candidate("small"), Candidate("large"))
    assert redact.candidates(arms) is arms


@given(some.text(max_size=60), some.sampled_from(sorted(KEYS.values())), some.text(max_size=60))
def test_redacting_twice_is_redacting_once_and_no_key_survives(before: str, secret: str, after: str) -> None:
    text = f"{before} {secret} {after}"
    clean = redact(text)
    assert secret not in clean
    assert redact(clean) == clean
    for start, end, kind in spans(clean):
        assert clean[start:end] == f"[redacted:{kind}]"


def test_redaction_marks_are_not_learned_from() -> None:
    assert without("use [redacted:api-key] now") == "use   now"
    assert without("no marks") == "no marks"


@pytest.mark.parametrize(
    "unit",
    ["A1", "sk-", "sk-a1", "password='", "a://", "a://b:", "-----BEGIN PRIVATE KEY-----\n", "Bearer 1", "SG.", "xoxb-",
     "eyJaaaaaaaaa.", "A" * 64 + "\n", "-----END PRIVATE KEY-----", "API_KEY=", "1 ", "(1", "a@", "token: "],
)  # fmt: skip
def test_no_input_makes_redaction_slow(unit: str) -> None:
    everything = Redactor(("secrets", "email", "phone", "card"))
    text = (unit * (200_000 // len(unit) + 1)) + " 1://@ PRIVATE KEY " + "a1" * 10
    everything(text)  # quadratic work here would run into the test's time limit


def test_the_name_of_a_field_says_that_its_value_is_a_secret() -> None:
    state = {
        "db_password": "hunter22!x",
        "note": "hunter22!x",
        "token_model": "gpt-4-turbo",
        KEYS["github"]: 1.0,
        "n": 2,
    }
    clean = redact.state(state)
    assert clean == {
        "db_password": "[redacted:password]", "note": "hunter22!x", "token_model": "gpt-4-turbo",
        "[redacted:api-key]": 1.0, "n": 2,
    }  # fmt: skip
    assert redact.state(clean) is clean
    two = {KEYS["github"]: 1.0, KEYS["openai"]: 2.0}
    assert sorted(redact.state(two).values()) == [1.0, 2.0], "names that became equal are told apart"
