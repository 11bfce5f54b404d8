"""The world `morph`: networks that grow while they train.

data.py         the digits and random teachers           host.py       trunks, slots, grafts, every subset of seeds
blueprints.py   what seeds become; kernels.py runs it     epoch.py      minibatches and Adam
lifecycle.py    stages, gates, masks                      operations.py what an action does
reward.py       accuracy less rent; what each seed adds   state.py      hosts; which fail, and are put back
observation.py  what a policy sees                        comparison.py ways on the same hosts, and the report
world.py        all of it, stepped together               baselines.py  policies to beat; evaluate.py plays them
"""
