"""simulator — programming problems with known solutions, and policies that practise on them.

problem.py            a problem, and files of problems
families/             what problems are put together from; generate.py draws them, traits.py words them
foreign_problems.py   problem files of HumanEval and MBPP
judge.py              runs solutions beside their tests in a sandbox; pair.py is what runs there
run.py                a solver on a file of problems, by several workers; results.py keeps what they find
validate.py           the reference passes and wrong solutions fail; outcomes.py keeps what each came to
solvers.py            scripted solvers of different strength and price; model_solvers.py: language models
world.py              episodes: choose solvers, prompts and checks; split.py holds problems and families out
practise.py           what `headway sim train` does
overview.py           what the page shows; routes.py
suites.py             problems as tasks of live comparisons, and the suites that come with Headway
oracle.py             the best policy with the information that exists; report.py compares others with it

Takes: problems and solvers.   Gives: checked problem files, the world `sim`.
Never: shows a policy the family, the difficulty or the hidden tests of a problem.
May import: cli, serve, project, settings, decide, encode, client, files, nouns.
"""

from headway.kits.prompts import MUTATIONS
from headway.nouns import Command, Kit

__all__ = ["ACTIONS", "KIT", "SOLVERS"]

SOLVERS = ("small", "text", "algorithms", "large")
# The actions of an episode, in the order that action numbers mean.
ACTIONS = (*SOLVERS, *MUTATIONS, "verify", "retry", "decompose", "stop")

KIT = Kit(
    name="simulator",
    summary="Programming problems with known solutions, and policies that practise on them.",
    needs=("models", "sandbox", "practice", "prompts", "offline", "reply"),
    worlds={"sim": "headway.kits.simulator.split:sim"},
    actions={"sim": ACTIONS},
    routes=("headway.kits.simulator.routes",),
    options={
        "learn": "headway.kits.simulator.commands.run:LEARN",
        "compare": "headway.kits.simulator.commands.compare:COMPARE",
    },
    commands={
        "sim": Command(
            "headway.kits.simulator.commands.run:sim",
            "Programming problems with known solutions, solvers, and policies that practise on them.",
        ),
        "sim generate": Command(
            "headway.kits.simulator.commands.files:generate",
            "Write problems with statements, solutions, wrong solutions and hidden tests.",
        ),
        "sim run": Command(
            "headway.kits.simulator.commands.run:run",
            "Judge one solution of each problem in sandboxes; the same command resumes a run that was stopped.",
        ),
        "sim image": Command(
            "headway.kits.simulator.commands.run:image",
            "Build the image of the docker sandbox. Needs an engine and, the first time, the network.",
        ),
        "sim import": Command(
            "headway.kits.simulator.commands.files:import_",
            "Import problems from FILE, in the shape of HumanEval or MBPP.",
        ),
        "sim report": Command(
            "headway.kits.simulator.commands.report:report",
            "Compare policies of TASK with rules, fixed arms, a bandit and the oracle on held-out problems.",
        ),
        "sim train": Command(
            "headway.kits.simulator.commands.run:train",
            "Practise solving problems: which solver, which prompt, when to verify, when to stop.",
        ),
        "sim validate": Command(
            "headway.kits.simulator.commands.files:validate",
            "Run the solutions of every problem: the reference must pass, wrong ones must fail.",
        ),
    },
)
