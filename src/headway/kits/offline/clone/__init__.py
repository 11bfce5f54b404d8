"""The family clone: policy.py decides, learner.py changes weights."""
