"""A class name has one meaning in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.rooms import SOURCE, files, nodes


def test_a_class_name_is_used_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(SOURCE).as_posix())
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not shared
