"""The snippet runner fails if a page is wrong, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.play import Block, Failed, blocks, commands, matches, play


def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    scratch, keep = tmp_path / "scratch", tmp_path / "keep"
    scratch.mkdir()
    keep.mkdir()
    monkeypatch.chdir(scratch)
    path = tmp_path / "page.md"
    path.write_text(text, "utf-8")
    return play(path, keep)


def test_python_blocks_share_a_namespace_and_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```python\nimport os\nassert os.listdir() == []\nx = 3\n```\nthen\n```python\nassert x == 3\n```\n"
    assert page(tmp_path, monkeypatch, text) == 0


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("```python\nassert 1 == 2\n```\n", "page.md:2"),
        ("text\n\n```python\nx = 1\nx.missing\n```\n", "line 5"),
        ("```console\n$ false\n```\n", "exit status 1"),
        ("<!-- exit: 3 -->\n```console\n$ true\n```\n", "the page says 3"),
        ("<!-- check -->\n```console\n$ echo one\ntwo\n```\n", "it printed\none"),
        ('```python\nprint("one")\n```\n<!-- check -->\n```text\ntwo\n```\n', "it printed\none"),
        ("```bash\nfalse\ntrue\n```\n", "exit status 1"),
        ("```sh\ntrue\n```\n", "console or bash"),
        ("<!-- no-run -->\n```console\n$ false\n```\n", "needs a reason"),
        ("```python\nx = 1\n", "never closed"),
        ("```console\nheadway\n```\n", "starts with a command"),
    ],
)
def test_a_wrong_page_fails_and_the_report_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, report: str
) -> None:
    assert page(tmp_path, monkeypatch, text) == 1
    assert report in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "<!-- exit: 3 -->\n```console\n$ true\n$ (exit 3)\n```\n",
        "<!-- check -->\n```console\n$ echo one; echo two\none\ntwo\n$ echo 3.14159 s\n3.1… s\n```\n",
        "<!-- no-run: it needs a server that listens -->\n```console\n$ false\n```\n",
        "```console\n$ mkdir a && cd a\n$ export COLOUR=red\n$ test $COLOUR = red -a -d ../a\n```\n",
        "```console\n$ cat > f <<END\n> one\n> END\n```\n```python\nimport os\nassert os.path.getsize('f') == 4\n```\n",
        '```python\nprint("a  b")\n```\n<!-- check -->\n```text\na b\n```\n',
        "```toml\nnot run\n```\n",
        "- in a list:\n\n  ```console\n  $ true\n  ```\n",
    ],
)
def test_a_correct_page_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert page(tmp_path, monkeypatch, text) == 0


def test_comments_apply_to_the_next_block_only() -> None:
    text = (
        "<!-- check -->\n<!-- exit: 2 -->\n```console\n$ a\n```\n```console\n$ b\n```\n"
        "<!-- check -->\nwords\n```text\n```\n"
    )
    assert [block.marks for block in blocks(text)] == [{"check": "", "exit": "2"}, {}, {}]
    assert blocks(text)[0] == Block(line=4, language="console", text="$ a", marks={"check": "", "exit": "2"})


def test_a_console_block_is_commands_each_with_its_output() -> None:
    assert commands("$ a\\\n  b\none\n\ntwo\n$ c\n") == [("a\\\n  b", "one\n\ntwo"), ("c", "")]
    with pytest.raises(Failed, match="starts with a command"):
        commands("output without a command")


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ("a b", "a   b\n", True),
        ("a … c", "a b b c", True),
        ("a … c", "a c", True),
        ("n=… ok", "n=4,000 ok", True),
        ("…", "", True),
        ("", "", True),
        ("a", "a b", False),
        ("a.c", "abc", False),
        ("a … c", "a b", False),
    ],
)
def test_shown_output_matches_up_to_white_space_and_ellipses(shown: str, real: str, same: bool) -> None:
    assert matches(shown, real) is same
