"""The family on graphs."""

from __future__ import annotations

from random import Random
from typing import Any

from headway.kits.simulator.families.parts import Core, Frame, ProgramStep


def _edges(rng: Random) -> list[Any]:
    def edge(nodes: int) -> list[int]:
        return [rng.randrange(nodes), rng.randrange(nodes), rng.randint(1, 9)]

    drawn = [[edge(rng.randint(4, 7)) for _ in range(rng.randint(4, 10))] for _ in range(9)]
    path = [[node, node + 1, 2] for node in range(5)]
    return [
        *drawn,
        [],
        [[0, 1, 5]],
        path,
        [[1, 0, 3], [2, 1, 1], [0, 2, 4]],
        [[0, 1, 9], [0, 2, 1], [2, 1, 1], [4, 5, 1]],
    ]


_NEAR = "near = {}\nfor a, b, length in edges:\n    near.setdefault(a, []).append((b, length))\n"
_BOTH = _NEAR + "    near.setdefault(b, []).append((a, length))\n"
_ONE_WAY = _NEAR + "    near.setdefault(b, [])\n"
_REACH = (
    "seen, open_ = {$k}, [$k]\nwhile open_:\n    for b, _ in near.get(open_.pop(), []):\n        if b not in seen:\n"
)
_REACH += "            seen.add(b)\n            open_.append(b)\n"
_HOPS = "far, queue = {0: 0}, [0]\nfor a in queue:\n    for b, _ in near.get(a, []):\n        if b not in far:\n"
_HOPS += "            far[b] = far[a] + 1\n            queue.append(b)\n"
_LENGTHS = "far, open_ = {}, [(0, 0)]\nwhile open_:\n    length, a = heapq.heappop(open_)\n    if a in far:\n"
_LENGTHS += "        continue\n    far[a] = length\n    for b, more in near.get(a, []):\n"
_LENGTHS += "        heapq.heappush(open_, (length + more, b))\n"
_GREEDY = "far, a, length = {0: 0}, 0, 0\nwhile any(b not in far for b, _ in near.get(a, [])):\n"
_GREEDY += (
    "    more, a = min((more, b) for b, more in near[a] if b not in far)\n    length += more\n    far[a] = length\n"
)
_PARTS = "parts, seen = 0, set()\nfor start in sorted(near):\n    if start not in seen:\n        parts += 1\n"
_PARTS += "        seen.add(start)\n        open_ = [start]\n        while open_:\n"
_PARTS += (
    "            for b, _ in near[open_.pop()]:\n                if b not in seen:\n                    seen.add(b)\n"
)
_PARTS += "                    open_.append(b)\n"
_ORDER = "left = {a: 0 for a in near}\nfor a in near:\n    for b, _ in near[a]:\n        left[b] += 1\norder = []\n"
_ORDER += "ready = sorted(a for a in left if not left[a])\nwhile ready:\n    a = ready.pop(0)\n    order.append(a)\n"
_ORDER += "    for b, _ in near[a]:\n        left[b] -= 1\n        if not left[b]:\n            ready.append(b)\n"
_SORTED = "    ready.sort()\n"

GRAPHS = Frame(
    parameter="edges",
    openings=(
        "`edges` describes a graph: each edge is [node, node, length].",
        "A road network is given as `edges`, a list of [from, to, length] with numbered nodes.",
        "The argument `edges` lists the edges of a graph between numbered nodes, as [a, b, length].",
    ),
    names=("walk_graph", "graph_value", "network_report", "route_length", "visit_nodes", "graph_metric", "node_search"),
    steps=(
        ProgramStep(
            "Ignore edges that are longer than $k.",
            "edges = [edge for edge in edges if edge[2] <= $k]",
            ("edges = [edge for edge in edges if edge[2] < $k]", "edges = [edge for edge in edges if edge[2] >= $k]"),
            {"k": (4, 5, 6, 7, 8)},
        ),
        ProgramStep(
            "Ignore edges from a node to itself.",
            "edges = [edge for edge in edges if edge[0] != edge[1]]",
            (
                "edges = [edge for edge in edges if edge[0] < edge[1]]",
                "edges = [edge for edge in edges if edge[0] == edge[1]]",
            ),
        ),
        ProgramStep(
            "Node $k is closed: ignore its edges.",
            "edges = [edge for edge in edges if $k not in edge[:2]]",
            ("edges = [edge for edge in edges if $k not in edge]", "edges = [edge for edge in edges if edge[0] != $k]"),
            {"k": (1, 2, 3)},
        ),
    ),
    cores=(
        Core(
            "Edges go both ways. Return the number of edge ends at node $k.",
            "return sum((edge[0] == $k) + (edge[1] == $k) for edge in edges)",
            (
                "return sum($k in edge[:2] for edge in edges)",
                "return sum($k in edge for edge in edges)",
                "return sum(edge[0] == $k for edge in edges)",
                "return len({edge[0] + edge[1] - $k for edge in edges if $k in edge[:2]})",
            ),
            {"k": (0, 1, 2, 3, 4)},
        ),
        Core(
            "Return the total length of all edges that touch a node above $k.",
            "return sum(edge[2] for edge in edges if max(edge[:2]) > $k)",
            (
                "return sum(edge[2] for edge in edges if max(edge[:2]) >= $k)",
                "return sum(edge[2] for edge in edges if min(edge[:2]) > $k)",
                "return sum(edge[2] for edge in edges if max(edge) > $k)",
                "return sum(edge[2] for edge in edges if edge[0] > $k)",
            ),
            {"k": (0, 1, 2, 3, 4)},
        ),
        Core(
            "Edges are one-way. Return the nodes that can be reached from node $k, sorted, node $k included.",
            _ONE_WAY + _REACH + "return sorted(seen)",
            (
                _BOTH + _REACH + "return sorted(seen)",
                _ONE_WAY + _REACH + "return sorted(seen - {$k})",
                _ONE_WAY + "return sorted({$k, *(b for b, _ in near.get($k, []))})",
                _NEAR + _REACH + "return sorted(seen, reverse=True)",
            ),
            {"k": (0, 1, 2, 3)},
            2,
        ),
        Core(
            "Edges go both ways. Return the fewest edges from node 0 to node $k, or -1 if there is no way.",
            _BOTH + _HOPS + "return far.get($k, -1)",
            (
                _ONE_WAY + _HOPS + "return far.get($k, -1)",
                _BOTH + _HOPS + "return far.get($k, 0)",
                "import heapq\n" + _BOTH + _LENGTHS + "return far.get($k, -1)",
                _BOTH + _HOPS + "return far.get($k, -2) + 1",
            ),
            {"k": (2, 3, 4)},
            3,
        ),
        Core(
            "Edges go both ways; only nodes with an edge exist. Return the number of connected parts plus $k times the number "
            "of nodes.",
            _BOTH + _PARTS + "return parts + $k * len(near)",
            (
                _ONE_WAY + _PARTS + "return parts + $k * len(near)",
                _BOTH + _PARTS + "return parts + $k * len(edges)",
                _BOTH + _PARTS + "return parts",
                _BOTH + _PARTS + "return parts + $k * max(near, default=0)",
            ),
            {"k": (2, 3, 5, 10)},
            3,
        ),
        Core(
            "Edges are one-way. Return the length of the shortest way from node 0 to node $k, or -1 if there is none.",
            "import heapq\n" + _ONE_WAY + _LENGTHS + "return far.get($k, -1)",
            (
                _ONE_WAY + _HOPS + "return far.get($k, -1)",
                "import heapq\n" + _BOTH + _LENGTHS + "return far.get($k, -1)",
                _ONE_WAY + _GREEDY + "return far.get($k, -1)",
                "import heapq\n" + _ONE_WAY + _LENGTHS + "return far.get($k, 0)",
            ),
            {"k": (1, 2, 3, 4)},
            4,
        ),
        Core(
            "Edges are one-way and mean 'before'. Return the nodes in an order that respects all edges, always taking the "
            "smallest possible node, or [$k] if there is a cycle.",
            _ONE_WAY + _ORDER + _SORTED + "return order if len(order) == len(near) else [$k]",
            (
                _ONE_WAY + _ORDER + "return order if len(order) == len(near) else [$k]",
                _ONE_WAY + _ORDER + _SORTED + "return order",
                _ONE_WAY + "return sorted(near)",
                _ONE_WAY + _ORDER + _SORTED + "return order if len(order) == len(near) else []",
            ),
            {"k": (-1, -2, -9)},
            5,
        ),
    ),
    inputs=_edges,
)
