"""A private name of a dependency stands in one file, which says why and for which versions, and changes are noticed."""

from __future__ import annotations

import ast
import inspect
import re
import socket
from pathlib import Path

import pytest

from tests.architecture.rooms import PYPROJECT, ROOT, SOURCE, files, imported, nodes

# The files that may, and the package whose private names they use.
ALLOWED = {
    "serve/run.py": "granian",
    "kits/reply/engines/graph.py": "openvino",
    "kits/otel/spans.py": "opentelemetry",
}
REQUIRED = [
    *PYPROJECT["project"]["dependencies"],
    *(line for lines in PYPROJECT["project"]["optional-dependencies"].values() for line in lines),
]


def private(path: Path) -> set[str]:
    """The packages of which a file imports a private module or name."""
    modules = (module.split(".") for module in imported(nodes(path)))
    return {top for top, *rest in modules if top[0] != "_" and any(re.match(r"_[a-z]", part) for part in rest)}


def test_private_names_of_dependencies_stand_in_one_file_each() -> None:
    found = {path: names for path in files() if (names := private(path))}
    assert found == {SOURCE / file: {package} for file, package in ALLOWED.items()}
    for path in files(ROOT / "tests"):
        there = any(isinstance(node, ast.Attribute) and node.attr == "_protected_args" for node in nodes(path))
        assert not there, f"{path}: tests.cli.command_line.words_after needs no private name of click"


@pytest.mark.parametrize("file", ALLOWED)
def test_a_file_with_private_names_says_for_which_versions(file: str) -> None:
    package, text = ALLOWED[file].replace("opentelemetry", "opentelemetry-sdk"), (SOURCE / file).read_text("utf-8")
    (required,) = {line for line in REQUIRED if re.split(r"[<>=]", line)[0] == package}
    said = re.search(rf"^{package} ([<>=].*?)\. ", text, re.MULTILINE)
    assert said is not None
    assert package + said[1].replace(", ", ",").replace(" ", "") == required
    assert Path(__file__).relative_to(ROOT).as_posix() in text


def test_granian_takes_a_socket_that_is_bound_already() -> None:
    from granian.server.common import AbstractServer

    from headway.serve.run import GranianServer
    from headway.settings import ServerSettings

    assert "self._init_shared_socket()" in inspect.getsource(AbstractServer.startup)
    names = set(re.findall(r"self\.(_s\w\w) = ", inspect.getsource(AbstractServer._init_shared_socket)))
    assert names == {"_ssp", "_shd", "_sfd"}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = listening.fileno()
        server = GranianServer(None, listening, ServerSettings())
        server._init_shared_socket()
        try:
            assert server._shd.get_fd() == server._sfd == descriptor
            assert server._ssp is None
        finally:
            socket.socket(fileno=descriptor).close()


def test_opentelemetry_emits_events_with_a_name() -> None:
    from opentelemetry._logs import Logger

    assert {"event_name", "timestamp", "context", "attributes"} <= inspect.signature(Logger.emit).parameters.keys()


def test_openvino_keeps_constants_in_float16_and_has_paged_attention() -> None:
    pytest.importorskip("headway.kits.reply.engines.graph")  # before OpenVINO, which would report the import
    from headway.kits.reply.engines.graph import compress, op, ov, page

    numbers = op.parameter([1, 4096], ov.Type.f32)
    model = ov.Model([op.multiply(numbers, op.constant([[0.1] * 4096], ov.Type.f32))], [numbers], "small")
    compress(model)
    kept = {node.get_element_type() for node in model.get_ops() if node.get_type_name() == "Constant"}
    assert kept == {ov.Type.f16}
    with pytest.raises(RuntimeError, match=r"(?i)paged|ScaledDotProductAttention"):
        page(model)  # there is no attention in it
