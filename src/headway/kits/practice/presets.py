"""Settings known to work in some worlds, and the choice of a device.

    preset("CartPole-v1")                 # Practice with its target return
    engine_on("cuda")                     # for `practise_in(build=…)`

The settings of the three control worlds come from a small search on a few seeds; `benchmarks/ppo.py` measures them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from headway.kits.practice.engine import NumpyEngine, PolicyEngine
from headway.kits.practice.fit import Practice
from headway.kits.practice.learner import PROMPTS
from headway.nouns import InvalidInput

DEVICES = ("cpu", "cuda", "mps")
PRESETS: Mapping[str, Practice] = MappingProxyType(
    {
        "CartPole-v1": Practice(
            steps=100_000, envs=16, horizon=32, epochs=10, minibatch=128, rate=1e-3, entropy=0.0, target=475.0
        ),
        "Acrobot-v1": Practice(
            steps=200_000, envs=8, horizon=32, epochs=6, minibatch=128, rate=1e-3, lam=0.94, target=-100.0
        ),
        "LunarLander-v3": Practice(
            steps=1_000_000, envs=16, horizon=128, epochs=10, minibatch=256, rate=5e-4, gamma=0.995, lam=0.98,
            target=200.0,
        ),
        "prompts": PROMPTS,
        "sim": Practice(
            steps=600_000, envs=128, horizon=32, epochs=4, minibatch=512, rate=1e-3, schedule="linear", gamma=1.0,
            hidden=(512, 256), activation="relu", norm=True, start="xavier", normalise_observations=False,
            normalise_rewards=False, episodes=500,
        ),
    }
)  # fmt: skip


def preset(world: str) -> Practice:
    """The settings for a world, by its Gymnasium id or our name; the defaults for other worlds."""
    return PRESETS.get(world, Practice())


def engine_on(device: str) -> Callable[..., PolicyEngine]:
    """The constructor of an engine there: numpy on the CPU, torch elsewhere."""
    if device == "cpu":
        return NumpyEngine
    if device not in DEVICES:
        raise InvalidInput(f"There is no device {device!r}.", code="bad_device", hint="cpu, cuda or mps.")
    from headway.kits.practice.torch_engine import TorchEngine, available

    return partial(TorchEngine, device=available(device))
