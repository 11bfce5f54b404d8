"""/openapi.json equals its golden file and describes the server.

python -m tests.serve.test_openapi        rewrites tests/golden/openapi.json; review the difference
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.serve.app import document, endpoints
from tests.serve.conftest import Running

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "openapi.json"


@pytest.mark.kits("*")
def test_the_document_equals_the_golden_file() -> None:
    assert document().decode() == GOLDEN.read_text("utf-8"), "run python -m tests.serve.test_openapi"


def test_the_document_is_served(server: Running) -> None:
    answer = server.client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == document()


def test_every_body_refuses_unknown_fields() -> None:
    api = json.loads(document())

    def closed(schema: dict[str, Any]) -> bool:
        if "$ref" in schema:
            schema = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema.get("additionalProperties", True) is not True

    for path, operations in api["paths"].items():
        for operation in operations.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if body:  # empty: passed on without reading
                assert closed(body), path


def test_every_operation_has_a_description_and_a_name() -> None:
    names = [endpoint.name for endpoint in endpoints()]
    assert all(endpoint.summary.endswith((".", "`", "it.")) or endpoint.summary for endpoint in endpoints())
    doubled = {name for name in names if names.count(name) > 1}
    assert not doubled, "operation ids are the names of client methods"


if __name__ == "__main__":
    GOLDEN.write_bytes(document())
