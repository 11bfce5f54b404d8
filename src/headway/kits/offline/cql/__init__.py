"""The family cql: policy.py decides, learner.py changes weights."""
