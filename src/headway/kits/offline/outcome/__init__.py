"""The family outcome: policy.py decides, learner.py changes weights."""
