"""Writes redaction_corpus.tsv: 250 lines with a made-up secret between ⟦ and ⟧, and 250 without one.

    python -m tests.observe.redaction_corpus

Some lines are hard on purpose: secrets without digits or in a sentence, and names, hashes and versions that look like
secrets. The measured precision and recall are what `test_redaction_corpus.py` asserts.
"""

from __future__ import annotations

import random
import string
import uuid
from pathlib import Path

FILE = Path(__file__).with_name("redaction_corpus.tsv")
ALNUM = string.ascii_letters + string.digits
LETTERS = {
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "a": ALNUM,
    "A": string.ascii_letters,
    "b": ALNUM + "+/",
    "c": "".join(letter for letter in ALNUM if letter not in "0OIl"),
    "d": string.digits,
    "l": string.ascii_lowercase + string.digits,
    "t": string.ascii_uppercase + "234567",
    "u": string.ascii_uppercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "w": ALNUM + "_-",
}

SECRETS = {
    "aws": ["aws_secret_access_key = ⟦{b40}⟧", "AWS_SECRET_ACCESS_KEY=⟦{b40}⟧", "aws_access_key_id: ⟦AKIA{u16}⟧"],
    "azure": ["DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=⟦{b86}==⟧;EndpointSuffix=core.example"],
    "sas": ["Endpoint=sb://bus.example/;SharedAccessKeyName=root;SharedAccessKey=⟦{b43}=⟧"],
    "yaml": ["password: ⟦{p12}⟧", "  db_password: ⟦{p14}⟧  # staging", "secret: ⟦{a32}⟧", "api_key: ⟦{h32}⟧"],
    "ini": ["password = ⟦{p12}⟧", "token = ⟦{a40}⟧", "client_secret=⟦{a36}⟧"],
    "code": ['password = "⟦{p12}⟧"', "api_key='⟦{a32}⟧'", '{{"client_secret": "⟦{h32}⟧", "id": 7}}'],
    "header": ["Authorization: Bearer ⟦{a40}⟧", "curl -H 'Authorization: Bearer ⟦{a36}⟧' https://api.example/v1"],
    "basic": ["Authorization: Basic ⟦{b24}⟧"],
    "jwt": ["token ⟦eyJ{a20}.eyJ{a40}.{a43}⟧ expired", "Cookie: session=⟦eyJ{a20}.eyJ{a60}.{a43}⟧"],
    "vendor": ["use ⟦sk-{a48}⟧ for now", "⟦ghp_{a36}⟧", "⟦glpat-{a20}⟧", "⟦hf_{a34}⟧", "⟦AIza{a35}⟧"],
    "url": ["postgresql://app:⟦{p12}⟧@db.example:5432/shop", "redis://:⟦{a20}⟧@cache.example:6379/0"],
    "private": ["-----BEGIN PRIVATE KEY-----\\n⟦{b64}\\n{b64}⟧\\n-----END PRIVATE KEY-----"],
    "hard": ["the password is ⟦{p12}⟧, tell nobody", "password: ⟦correcthorsebattery⟧", "login bob, pass ⟦{p12}⟧"],
}
ORDINARY = [
    "def login(user: str, password: str = '') -> Token{d2}:",
    "password = getpass.getpass(prompt='Password {d2}: ')",
    "token = tokenizer.encode(text_{d2})",
    "max_tokens: {d4}, stop_token_id = {d5}",
    "secret_name: prod-db-credentials-v{d2}",
    "api_key = os.environ['SERVICE_API_KEY_{d2}']",
    "API_KEY=${{SERVICE_KEY_{d2}}}",
    'password: "changeme{d2}"',
    "token: see docs/how-to/keys.md#rotate-{d2}",
    "commit {h40}",
    "sha256:{h64}",
    "id: {h8}-{h4}-{h4}-{h4}-{h12}",
    "dec_{h32} was decided in {d2} ms",
    "The token bucket refills {d2} times per second.",
    "Set password_min_length = {d2} and password_max_age_days: {d3}",
    "https://shop.example/orders/{d8}?page={d2}",
    "git clone git@host.example:team/repository-{d2}.git",
    "access_key_rotation: every_{d2}_days",
    "credentials: service-account-{d3}@project.example",
    "Private keys rotate on day {d2}; public keys do not.",
    "next_token = cursor_{d5}_page_{d2}",
    "token_type: urn:ietf:params:oauth:token-type:jwt",
    "secretKeyRef: {{name: db-{d2}, key: password}}",
    "passwd: files systemd  # nsswitch line {d2}",
    "tokens=[101, {d4}, {d4}, 102]",
    "The secret of {d4} was a good year.",
    "assert response.json()['token'] == expected_token_{d2}",
    "INFO 2026-06-{d2} worker {d2}: token refreshed, expires in {d4} s",
    "css: .password-{d2} {{ margin: {d2}px }}",
    "uv pip install tokenizers==0.{d2}.1 secretstorage==3.3.{d1}",
    "bearer of bad news, chapter {d2}",
    "password_hash = argon2id(m={d5}, t={d1})",
    "TOKEN_COUNT={d8}",
    "api_key_header = X-Api-Key-Version-{d1}",
    "access_key: {{{{ lookup('env', 'KEY_{d2}') }}}}",
    "model: gpt-{d1}-turbo-20{d2}-preview",
    "row {d5}: passwords must have {d2} characters and a sign such as ! or ?",
    "SELECT token_id, password_reset_at FROM users WHERE id = {d5}",
    "private_key_path: /etc/ssl/private/site-{d2}.key",
    "secret = input_{d2}.strip()",
]


def filled(template: str, rng: random.Random, values: list[str] | None = None) -> str:
    """`{h32}` becomes 32 hexadecimal digits: see LETTERS. `{p12}` is a password, `{uuid}` one of version 4.

    What was put in is appended to `values`.
    """

    class Fresh(dict[str, str]):
        def __missing__(self, name: str) -> str:
            if name == "uuid":
                value = str(uuid.UUID(int=rng.getrandbits(128), version=4))
            elif name[0] == "p":
                value = password(int(name[1:]), rng)
            else:
                value = "".join(rng.choices(LETTERS[name[0]], k=int(name[1:])))
            if values is not None:
                values.append(value)
            return value

    return template.format_map(Fresh())


def password(size: int, rng: random.Random) -> str:
    """Letters of both cases, digits and one sign."""
    letters = [*rng.choices(string.ascii_lowercase, k=size - 5), *rng.choices(string.ascii_uppercase, k=2)]
    letters += [*rng.choices(string.digits, k=2), rng.choice("!?*%&#")]
    rng.shuffle(letters)
    return "".join(letters)


def lines() -> list[str]:
    rng = random.Random(23)
    kinds = list(SECRETS)
    with_secret = [filled(rng.choice(SECRETS[kinds[number % len(kinds)]]), rng) for number in range(250)]
    without = [filled(ORDINARY[number % len(ORDINARY)], rng) for number in range(250)]
    return with_secret + without


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", "utf-8")
