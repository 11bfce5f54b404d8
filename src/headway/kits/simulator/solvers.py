"""The scripted solvers: arms of different strength, price and latency that write real code.

    source = scripted("small", problem, problem.statement, attempt=0)       # Python source, the same every time
    drafts(problems, at, arm, prompts, split, told, draw)                   # many at once, as numbers of sources

A scripted solver hands in the reference of a problem, or one of its wrong solutions: whether that passes is found out
by running it. Which one it hands in depends on how far the problem exceeds its skill,

    margin = skill(solver, family) − difficulty − unanswered traits + 1 if decomposed (difficulty ≥ 3) + 1 if told a
    failed test,                                  chance of the reference = CHANCES[margin]

and on a number that follows from the problem's checksum, the solver, the state of the prompt and the attempt. An
unanswered trait is a wording of the statement (traits.py) whose mutation has not been applied.

Not covered: real models; `model_solvers.py` has those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.models import Generator, Prompt, Turn
from headway.kits.prompts import MUTATIONS, applied
from headway.kits.sandbox import code_in
from headway.kits.simulator import SOLVERS
from headway.kits.simulator.problem import TRAITS, CodeProblem, traits_of
from headway.nouns import errors
from headway.settings import Settings, load

Ints = NDArray[np.int64]
CHANCES = (0.03, 0.15, 0.45, 0.85, 0.96)  # by margin: -3 or less, -2, -1, 0, 1 or more
SPLIT_FROM = 3  # decomposing helps from this difficulty on
_TEXT = ("strings", "parsing", "regex", "cleaning", "logs")
_ALGORITHMS = ("arithmetic", "sorting", "graphs", "dynamic-programming", "dates")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedSolver:
    """A solver: its price in units of a solved problem, its latency, its skill by family in units of difficulty."""

    price: float
    latency_s: float
    skills: Mapping[str, int] = field(default_factory=dict)
    other: int  # its skill in all other families


SCRIPTED: Mapping[str, ScriptedSolver] = {
    "small": ScriptedSolver(price=0.02, latency_s=0.4, skills={"arithmetic": 3, "strings": 2, "sorting": 2}, other=1),
    "text": ScriptedSolver(price=0.07, latency_s=1.0, skills=dict.fromkeys(_TEXT, 5), other=1),
    "algorithms": ScriptedSolver(price=0.07, latency_s=1.2, skills=dict.fromkeys(_ALGORITHMS, 5), other=1),
    "large": ScriptedSolver(price=0.25, latency_s=6.0, skills={"repair": 5, "refactoring": 5}, other=4),
}
assert tuple(SCRIPTED) == SOLVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """What decides how solvers do, as arrays over problems. Policies never see it."""

    keys: NDArray[np.uint64]  # [problem]
    difficulty: Ints  # [problem]
    skills: Ints  # [problem, solver]
    traits: Ints  # [problem]: bits in the order of MUTATIONS
    sources: Ints  # [problem]: how many, the reference included

    @classmethod
    def of(cls, problems: Sequence[CodeProblem]) -> Subjects:
        skills = [[row.skills.get(problem.family, row.other) for row in SCRIPTED.values()] for problem in problems]
        return cls(
            keys=np.array([int(problem.checksum[:16], 16) for problem in problems], dtype=np.uint64),
            difficulty=np.array([problem.difficulty for problem in problems], dtype=np.int64),
            skills=np.array(skills, dtype=np.int64).reshape(len(problems), len(SCRIPTED)),
            traits=np.array([sum(1 << kind for kind in traits_of(problem.statement)) for problem in problems]),
            sources=np.array([1 + len(problem.wrong) for problem in problems], dtype=np.int64),
        )


def sources(problem: CodeProblem) -> list[str]:
    """What scripted solvers hand in: the reference, then the wrong solutions."""
    return [problem.reference, *problem.wrong]


def chance_of(margin: Any) -> NDArray[np.float64]:
    """The chance of the reference at a margin."""
    chances: NDArray[np.float64] = np.asarray(CHANCES)[np.clip(np.asarray(margin) + 3, 0, len(CHANCES) - 1)]
    return chances


def margins(subjects: Subjects, at: Ints, arm: Ints, prompts: Ints, split: Ints, told: Ints) -> Ints:
    """[row]: by how much the solver's skill exceeds the problem. `prompts` are bits of applied mutations."""
    unanswered = np.zeros(len(at), dtype=np.int64)
    left = subjects.traits[at] & ~prompts
    for kind in range(len(MUTATIONS)):
        unanswered += left >> kind & 1
    difficulty = subjects.difficulty[at]
    helped = (split.astype(np.bool_) & (difficulty >= SPLIT_FROM)).astype(np.int64) + told.astype(np.int64)
    margin: Ints = subjects.skills[at, arm] - difficulty - unanswered + helped
    return margin


def drafts(
    subjects: Subjects, at: Ints, arm: Ints, prompts: Ints, split: Ints, told: Ints, draw: NDArray[np.uint64]
) -> Ints:
    """[row]: the number of the source that a solver hands in; 0 is the reference. `draw` numbers the attempt."""
    state = np.uint64(1) + arm.astype(np.uint64) | prompts.astype(np.uint64) << np.uint64(8)
    state |= split.astype(np.uint64) << np.uint64(16) | told.astype(np.uint64) << np.uint64(17)
    mixed = _mix(_mix(_mix(subjects.keys[at]) ^ state) ^ draw)
    right = _unit(mixed) < chance_of(margins(subjects, at, arm, prompts, split, told))
    wrong = 1 + (_unit(_mix(mixed)) * (subjects.sources[at] - 1)).astype(np.int64)
    return np.where(right, 0, wrong)


def scripted(name: str, problem: CodeProblem, prompt: str, attempt: int = 0) -> str:
    """The source that a scripted solver hands in for a prompt; the same input gives the same source."""
    if name not in SCRIPTED:
        raise errors.UnknownName(
            f"There is no solver {name!r}.", code="unknown_solver", hint=errors.did_you_mean(name, SCRIPTED)
        )
    if not problem.wrong:
        return problem.reference
    row = np.zeros(1, dtype=np.int64)
    arm = row + list(SCRIPTED).index(name)
    draw = np.array([attempt], dtype=np.uint64)
    number = drafts(Subjects.of([problem]), row, arm, row + mutated(problem.statement, prompt), row, row, draw)
    return sources(problem)[int(number[0])]


def mutated(statement: str, prompt: str) -> int:
    """The mutations that were applied to a statement, as bits in the order of MUTATIONS."""
    bits = sum(1 << MUTATIONS.index(kind) for kind in applied(prompt))
    padding = TRAITS["context-reduction"]
    reduced = any(wording in statement for wording in padding) and not any(wording in prompt for wording in padding)
    return bits | reduced << MUTATIONS.index("context-reduction")


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: the same on every machine."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


def _unit(values: NDArray[np.uint64]) -> NDArray[np.float64]:
    return (values >> np.uint64(11)).astype(np.float64) * 2.0**-53


MAX_TOKENS = 320
_EXAMPLES = 3


def prompt_of(problem: CodeProblem, statement: str = "") -> str:
    """What a model is asked; `statement`: the problem's own, or what mutations made of it."""
    examples = [
        f"{problem.entry}({', '.join(json.dumps(value) for value in case.args)}) returns {json.dumps(case.returns)}"
        for case in problem.visible[:_EXAMPLES]
    ]
    shown = "\n".join(["", "Examples:", *examples]) if examples else ""
    return f"{statement or problem.statement}\n{shown}\n\nAnswer with the whole function in one Python code block."


def known_models(folder: Path) -> tuple[str, ...]:
    """The upstreams of the settings in a folder, and the local models, there or not."""
    from headway.kits.models import KNOWN, installed

    settings = load(folder)
    local = [model.name for model in installed(settings.cache)]
    return tuple(dict.fromkeys([*settings.upstreams, *local, *(name for name in KNOWN if name != "minilm")]))


def check_model(folder: Path, name: str) -> None:
    """Raise `model_missing` if a local model is not here; upstreams are asked later."""
    from headway.kits.models import folder as model_folder

    settings = load(folder)
    if name not in settings.upstreams:
        model_folder(name, settings.cache)


def model_source(folder: Path, name: str, problem: CodeProblem) -> str:
    """The source that a model writes for a problem."""
    asked = Prompt(turns=(Turn("user", prompt_of(problem)),), temperature=0.0, max_tokens=MAX_TOKENS)
    try:
        reply = _generator(folder.resolve(), name).generate([asked])[0]
    except errors.HeadwayError as error:
        raise errors.Unavailable(f"{name}: {error.message}", code=error.code, hint=error.hint) from error
    return code_in(reply.text)


@cache
def _generator(folder: Path, name: str) -> Generator:
    """The model, loaded once for each process; it ends with the process."""
    settings: Settings = load(folder)
    if name not in settings.upstreams:
        from headway.kits.reply import local

        return local(folder, name)
    from headway.kits.models import ChatEndpoint

    return ChatEndpoint.of(settings, name)
