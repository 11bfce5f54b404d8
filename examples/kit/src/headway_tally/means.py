"""What the command and the route share: a kit's verb is a function that takes a Project."""

from statistics import fmean


def means(project, task):
    """The mean reward of each action that has one."""
    project.settle(task)
    rewards = {}
    for row in project.query.settled(task):
        if row.reward is not None:
            rewards.setdefault(row.decision.action, []).append(row.reward)
    return {action: fmean(values) for action, values in sorted(rewards.items())}
