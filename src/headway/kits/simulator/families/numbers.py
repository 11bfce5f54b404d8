"""Families on lists of whole numbers: arithmetic, sorting and searching, dynamic programming."""

from __future__ import annotations

from random import Random
from typing import Any

from headway.kits.simulator.families.parts import Core, Frame, ProgramStep


def _lists(rng: Random) -> list[Any]:
    """Lists of whole numbers: empty, single, equal, negative, and random ones."""
    single = rng.randint(-30, 30)
    drawn = [[rng.randint(-30, 60) for _ in range(rng.randint(3, 9))] for _ in range(7)]
    even = [2 * rng.randint(-9, 20) for _ in range(6)]
    return [*drawn, [], [single], [7, 7, 7], [-5, -12, -1, -12], [0, 1, 0, 2, 40, 41], even]


def _small(rng: Random) -> list[Any]:
    """Lists of numbers from 0 to 12, mostly above 0."""
    drawn = [[rng.randint(1, 12) for _ in range(rng.randint(3, 8))] for _ in range(8)]
    return [*drawn, [], [rng.randint(1, 9)], [3, 3, 3, 3], [0, 5, 0, 1], [1, 2, 3, 4, 5, 6]]


_K = {"k": (2, 3, 4, 5, 6, 7, 9)}
_LIMIT = {"k": (5, 8, 10, 12, 15, 20, 25)}

ARITHMETIC = Frame(
    parameter="numbers",
    openings=(
        "`numbers` is a list of whole numbers.",
        "The argument `numbers` is a list of integers, some of them negative.",
        "You get `numbers`, a list of whole numbers that may be negative or zero.",
    ),
    names=("total_score", "checksum_value", "ledger_total", "combine_numbers", "weigh_numbers", "tally", "account_sum"),
    steps=(
        ProgramStep(
            "Leave out every multiple of $k.",
            "numbers = [n for n in numbers if n % $k != 0]",
            ("numbers = [n for n in numbers if n % $k == 0]", "numbers = [n for n in numbers if n == 0 or n % $k]"),
            _K,
        ),
        ProgramStep(
            "Replace every negative number by its absolute value plus $k.",
            "numbers = [-n + $k if n < 0 else n for n in numbers]",
            ("numbers = [abs(n) for n in numbers]", "numbers = [abs(n) + $k if n <= 0 else n for n in numbers]"),
            _K,
        ),
        ProgramStep(
            "Cap every number at $k.",
            "numbers = [min(n, $k) for n in numbers]",
            ("numbers = [n for n in numbers if n <= $k]", "numbers = [max(n, $k) for n in numbers]"),
            _LIMIT,
        ),
        ProgramStep(
            "Square the numbers that are smaller than $k in absolute value.",
            "numbers = [n * n if abs(n) < $k else n for n in numbers]",
            (
                "numbers = [n * n if n < $k else n for n in numbers]",
                "numbers = [n * n if abs(n) <= $k else n for n in numbers]",
            ),
            _LIMIT,
        ),
        ProgramStep(
            "Add to each number its position in the list, counted from $k.",
            "numbers = [n + place for place, n in enumerate(numbers, $k)]",
            ("numbers = [n + place for place, n in enumerate(numbers)]", "numbers = [n + $k for n in numbers]"),
            _K,
        ),
    ),
    cores=(
        Core(
            "Return the sum, reduced modulo $k.",
            "return sum(numbers) % $k",
            ("return sum(numbers)", "return sum(n % $k for n in numbers)", "return abs(sum(numbers)) % $k"),
            {"k": (7, 11, 13, 17, 19, 23, 29, 97)},
        ),
        Core(
            "Return the largest number minus the smallest, and $k if there are no numbers.",
            "return max(numbers) - min(numbers) if numbers else $k",
            (
                "return max(numbers) - min(numbers) if numbers else 0",
                "return max(numbers) - numbers[0] if numbers else $k",
                "return max(numbers) + min(numbers) if numbers else $k",
                "return max(map(abs, numbers)) - min(map(abs, numbers)) if numbers else $k",
            ),
            {"k": (-1, -2, 1, 99, 100)},
        ),
        Core(
            "Return the alternating sum: the first number minus the second plus the third and so on, times $k.",
            "return $k * (sum(numbers[::2]) - sum(numbers[1::2]))",
            (
                "return $k * (sum(numbers[1::2]) - sum(numbers[::2]))",
                "return $k * abs(sum(numbers[::2]) - sum(numbers[1::2]))",
                "return sum(numbers[::2]) - $k * sum(numbers[1::2])",
                "return $k * sum(numbers)",
            ),
            {"k": (2, 3, 4, 5, 6, 8)},
        ),
        Core(
            "Return the sum of the decimal digits of all numbers, ignoring signs, times $k.",
            "return $k * sum(int(digit) for n in numbers for digit in str(abs(n)))",
            (
                "return $k * sum(int(digit) for n in numbers if n >= 0 for digit in str(n))",
                "return $k * sum(abs(n) % 10 for n in numbers)",
                "return $k * sum(int(digit) for digit in str(abs(sum(numbers))))",
                "return $k * sum(len(str(abs(n))) for n in numbers)",
            ),
            {"k": (1, 2, 3, 5, 7)},
            2,
        ),
        Core(
            "Return how many pairs of different positions hold numbers whose sum is divisible by $k.",
            "return sum((a + b) % $k == 0 for i, a in enumerate(numbers) for b in numbers[i + 1:])",
            (
                "return sum((a + b) % $k == 0 for a in numbers for b in numbers)",
                "return sum((a + b) % $k == 0 for a, b in zip(numbers, numbers[1:]))",
                "return sum((a + b) % $k == 0 for i, a in enumerate(numbers) for b in numbers[i:])",
                "return sum((a + b) // $k == 0 for i, a in enumerate(numbers) for b in numbers[i + 1:])",
            ),
            {"k": (2, 3, 4, 5)},
            3,
        ),
    ),
    inputs=_lists,
)

SORTING = Frame(
    parameter="values",
    openings=(
        "`values` is a list of whole numbers in no particular order.",
        "The argument `values` is an unsorted list of integers; values may repeat.",
        "You get `values`, integers in arbitrary order, possibly with duplicates.",
    ),
    names=("arrange", "rank_values", "search_values", "ordered_pick", "sorted_view", "find_position", "select_value"),
    steps=(
        ProgramStep(
            "Remove duplicates, so that the first occurrence of each value stays.",
            "values = list(dict.fromkeys(values))",
            ("values = list(dict.fromkeys(reversed(values)))", "values = [v for v in values if values.count(v) == 1]"),
        ),
        ProgramStep(
            "Ignore values above $k.",
            "values = [v for v in values if v <= $k]",
            ("values = [v for v in values if v < $k]", "values = [min(v, $k) for v in values]"),
            {"k": (20, 25, 30, 35, 40, 41)},
        ),
        ProgramStep(
            "Order the even values before the odd ones; both groups keep their order.",
            "values = sorted(values, key=lambda v: v % 2)",
            ("values = sorted(values, key=lambda v: -(v % 2))", "values = sorted(values, key=lambda v: (v % 2, v))"),
        ),
        ProgramStep(
            "Rotate the list to the left by $k places.",
            "values = values[$k % len(values):] + values[:$k % len(values)] if values else []",
            ("values = values[$k:] + values[:$k]", "values = values[-$k:] + values[:-$k]"),
            {"k": (1, 2, 3, 4, 5, 6, 7)},
        ),
    ),
    cores=(
        Core(
            "Return the values in descending order, at most the first $k of them.",
            "return sorted(values, reverse=True)[:$k]",
            ("return sorted(values)[:$k]", "return sorted(values)[-$k:]", "return sorted(values, reverse=True)"),
            {"k": (2, 3, 4, 5)},
        ),
        Core(
            "Return the index of the first value that is at least $k, or -1.",
            "return next((i for i, v in enumerate(values) if v >= $k), -1)",
            (
                "return next((i for i, v in enumerate(values) if v > $k), -1)",
                "return next((i for i, v in enumerate(values) if v >= $k), len(values))",
                "return sorted(values).index(max(values)) if values else -1",
                "return max((i for i, v in enumerate(values) if v >= $k), default=-1)",
            ),
            {"k": (7, 10, 15, 18, 22, 40)},
        ),
        Core(
            "Return the $k smallest values by distance to $t, nearest first; ties go to the smaller value.",
            "return sorted(values, key=lambda v: (abs(v - $t), v))[:$k]",
            (
                "return sorted(values, key=lambda v: abs(v - $t))[:$k]",
                "return sorted(sorted(values, key=lambda v: (abs(v - $t), v))[:$k])",
                "return sorted(values, key=lambda v: (abs(v), v))[:$k]",
                "return sorted(values, key=lambda v: (abs(v - $t), -v))[:$k]",
            ),
            {"k": (2, 3, 4), "t": (5, 10, 12, 20)},
            2,
        ),
        Core(
            "Return the number of inversions: pairs of positions whose earlier value is larger than the later one "
            "by more than $k.",
            "return sum(a - b > $k for i, a in enumerate(values) for b in values[i + 1:])",
            (
                "return sum(a - b >= $k for i, a in enumerate(values) for b in values[i + 1:])",
                "return sum(a - b > $k for a, b in zip(values, values[1:]))",
                "return sum(abs(a - b) > $k for i, a in enumerate(values) for b in values[i + 1:])",
                "return sum(b - a > $k for i, a in enumerate(values) for b in values[i + 1:])",
            ),
            {"k": (0, 1, 2, 5, 7, 10)},
            3,
        ),
        Core(
            "Sort the values, join neighbours that differ by at most $k into groups, and return each group as "
            "[lowest, highest].",
            "groups = []\nfor v in sorted(values):\n    if groups and v - groups[-1][1] <= $k:\n        groups[-1][1] = v\n"
            "    else:\n        groups.append([v, v])\nreturn groups",
            (
                (
                    "groups = []\nfor v in values:\n    if groups and v - groups[-1][1] <= $k:\n        groups[-1][1] = v\n"
                    "    else:\n        groups.append([v, v])\nreturn groups"
                ),
                (
                    "groups = []\nfor v in sorted(values):\n    if groups and v - groups[-1][1] < $k:\n"
                    "        groups[-1][1] = v\n    else:\n        groups.append([v, v])\nreturn groups"
                ),
                (
                    "groups = []\nfor v in sorted(values):\n    if groups and v - groups[-1][0] <= $k:\n"
                    "        groups[-1][1] = v\n    else:\n        groups.append([v, v])\nreturn groups"
                ),
            ),
            {"k": (1, 2, 3, 4, 5, 6)},
            4,
        ),
    ),
    inputs=_lists,
)

_DP_STEPS = (
    ProgramStep(
        "Drop the zeros first.",
        "amounts = [a for a in amounts if a != 0]",
        ("amounts = [a for a in amounts if a > 1]", "amounts = amounts[:]"),
    ),
    ProgramStep(
        "Amounts above $k count as $k.",
        "amounts = [min(a, $k) for a in amounts]",
        ("amounts = [a for a in amounts if a <= $k]", "amounts = [max(a, $k) for a in amounts]"),
        {"k": (5, 6, 7, 8, 9, 10)},
    ),
)

DYNAMIC = Frame(
    parameter="amounts",
    openings=(
        "`amounts` is a list of whole numbers, none of them negative; solve it by dynamic programming.",
        "The argument `amounts` is a list of non-negative integers. Think of optimal subproblems.",
        "You get `amounts`, non-negative whole numbers; a table of subproblem results is the way to go.",
    ),
    names=("best_plan", "optimal_total", "plan_amounts", "best_choice", "max_gain", "min_effort", "count_ways"),
    steps=_DP_STEPS,
    cores=(
        Core(
            "Return the list of running totals, each reduced modulo $k.",
            "total, totals = 0, []\nfor a in amounts:\n    total = (total + a) % $k\n    totals.append(total)\nreturn totals",
            (
                (
                    "total, totals = 0, []\nfor a in amounts:\n    total = total + a % $k\n    totals.append(total)\n"
                    "return totals"
                ),
                (
                    "total, totals = 0, [0]\nfor a in amounts:\n    total = (total + a) % $k\n    totals.append(total)\n"
                    "return totals"
                ),
                (
                    "total, totals = 0, []\nfor a in amounts:\n    totals.append(total)\n    total = (total + a) % $k\n"
                    "return totals"
                ),
            ),
            {"k": (5, 7, 9, 10, 11, 12, 13)},
        ),
        Core(
            "Return the largest sum of consecutive amounts after $k was subtracted from each; an empty choice counts 0.",
            "best = here = 0\nfor a in amounts:\n    here = max(0, here + a - $k)\n    best = max(best, here)\nreturn best",
            (
                "best = here = 0\nfor a in amounts:\n    here = here + a - $k\n    best = max(best, here)\nreturn best",
                "return sum(max(0, a - $k) for a in amounts)",
                (
                    "best = here = -10**9\nfor a in amounts:\n    here = max(a - $k, here + a - $k)\n    best = max(best, here)\n"
                    "return best"
                ),
                "best = here = 0\nfor a in amounts:\n    here = max(0, here + a - $k)\nreturn here",
            ),
            {"k": (3, 4, 5, 6, 7)},
            2,
        ),
        Core(
            "Return the largest sum of amounts such that no two chosen positions are closer than $k.",
            "best = [0] * (len(amounts) + 1)\nfor i, a in enumerate(amounts, 1):\n"
            "    best[i] = max(best[i - 1], a + best[max(0, i - $k)])\nreturn best[-1]",
            (
                "return max((sum(amounts[start::$k]) for start in range($k)), default=0)",
                (
                    "best = [0] * (len(amounts) + 1)\nfor i, a in enumerate(amounts, 1):\n"
                    "    best[i] = max(best[i - 1], a + best[max(0, i - $k - 1)])\nreturn best[-1]"
                ),
                (
                    "best = [0] * (len(amounts) + 1)\nfor i, a in enumerate(amounts, 1):\n"
                    "    best[i] = a + best[max(0, i - $k)]\nreturn best[-1]"
                ),
                "return sum(sorted(amounts)[-((len(amounts) + $k - 1) // $k):]) if amounts else 0",
            ),
            {"k": (2, 3, 4)},
            3,
        ),
        Core(
            "Each amount is a coin that may be used any number of times. Return the fewest coins that add up to exactly "
            "$t, or -1 if that is impossible.",
            "fewest = [0] + [10**6] * $t\nfor total in range(1, $t + 1):\n"
            "    fewest[total] = min([fewest[total - a] + 1 for a in amounts if 0 < a <= total], default=10**6)\n"
            "return fewest[$t] if fewest[$t] < 10**6 else -1",
            (
                (
                    "left, used = $t, 0\nfor a in sorted(amounts, reverse=True):\n    if a:\n        used += left // a\n"
                    "        left %= a\nreturn used if left == 0 else -1"
                ),
                (
                    "fewest = [0] + [10**6] * $t\nfor a in amounts:\n    for total in range($t, a - 1, -1):\n"
                    "        fewest[total] = min(fewest[total], fewest[total - a] + 1)\n"
                    "return fewest[$t] if fewest[$t] < 10**6 else -1"
                ),
                (
                    "fewest = [0] + [10**6] * $t\nfor total in range(1, $t + 1):\n"
                    "    fewest[total] = min([fewest[total - a] + 1 for a in amounts if 0 < a <= total], default=10**6)\n"
                    "return fewest[$t] if fewest[$t] < 10**6 else 0"
                ),
                (
                    "fewest = [0] + [10**6] * $t\nfor total in range(1, $t + 1):\n"
                    "    fewest[total] = min([fewest[total - a] + 1 for a in amounts if 0 < a < total], default=10**6)\n"
                    "return fewest[$t] if fewest[$t] < 10**6 else -1"
                ),
            ),
            {"t": (11, 13, 14, 17, 18, 19, 22, 23, 26)},
            4,
        ),
        Core(
            "Return the length of the longest subsequence in which every element is larger than the one before it by at "
            "least $k.",
            "best = []\nfor i, a in enumerate(amounts):\n"
            "    best.append(1 + max([best[j] for j in range(i) if a - amounts[j] >= $k], default=0))\n"
            "return max(best, default=0)",
            (
                (
                    "best = []\nfor i, a in enumerate(amounts):\n"
                    "    best.append(1 + max([best[j] for j in range(i) if a - amounts[j] > $k], default=0))\n"
                    "return max(best, default=0)"
                ),
                (
                    "length, last = 0, -10**6\nfor a in amounts:\n    if a - last >= $k:\n        length, last = length + 1, a\n"
                    "return length"
                ),
                (
                    "best = []\nfor i, a in enumerate(amounts):\n"
                    "    best.append(1 + max([best[j] for j in range(i) if abs(a - amounts[j]) >= $k], default=0))\n"
                    "return max(best, default=0)"
                ),
                (
                    "best = []\nfor i, a in enumerate(amounts):\n"
                    "    best.append(1 + max([best[j] for j in range(i) if a - amounts[j] >= $k], default=0))\n"
                    "return best[-1] if best else 0"
                ),
            ),
            {"k": (1, 2, 3, 4)},
            3,
        ),
        Core(
            "Return how many different totals can be reached by choosing some of the amounts, each at most once, if a total "
            "above $t does not count; choosing none gives 0, which counts.",
            "totals = {0}\nfor a in amounts:\n    totals |= {total + a for total in totals if total + a <= $t}\n"
            "return len(totals)",
            (
                (
                    "totals = {0}\nfor a in amounts:\n    totals |= {total + a for total in totals if total + a <= $t}\n"
                    "return len(totals) - 1"
                ),
                (
                    "totals = {0}\nfor a in amounts:\n    totals |= {total + a for total in totals if total + a < $t}\n"
                    "return len(totals)"
                ),
                (
                    "totals = {0}\nfor total in range($t + 1):\n    totals |= {total + a for a in amounts if total in totals "
                    "and total + a <= $t}\nreturn len(totals)"
                ),
                "return sum(sum(amounts[:i]) <= $t for i in range(len(amounts) + 1))",
            ),
            {"t": (12, 14, 15, 16, 18, 20, 21)},
            5,
        ),
    ),
    inputs=_small,
)
