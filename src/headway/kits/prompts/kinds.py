"""The five ways to change a prompt, in the order that action numbers mean."""

MUTATIONS = ("try-catch-style", "context-reduction", "expansion", "constraint-addition", "task-decomposition")
