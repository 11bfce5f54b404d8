"""The world `morph`: networks that grow while they train.

data.py         the digits and random teachers           host.py       trunks, slots, grafts, every subset of seeds
blueprints.py   what seeds become; kernels.py runs it     epoch.py      minibatches and Adam
lifecycle.py    stages, gates, masks                      operations.py what an action does
contribution.py leave-one-out, interactions, Shapley      reward.py     accuracy less rent
observation.py  what a policy sees                        governor.py   hosts that fail
world.py        all of it, stepped together               baselines.py  policies to beat; evaluate.py plays them
"""
