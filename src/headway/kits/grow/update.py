"""One update of a recurrent network from a rollout: PPO over sequences, in minibatches of copies.

    updated = update(network, optimiser, sequences, knobs, rng)

Before the first pass, values and the log-probabilities of the acting policy are computed in the minibatches of that
pass: the same call on the same numbers, so the first ratio of every row is exactly one while no weight has changed.

Critics. "state" is V(s). "marginal" fits Q(s, lead's choice) on what was chosen and uses
V(s) = Σ π(choice|s)·Q(s, choice) for advantages and bootstraps. "sampled_op" gives the critic the probabilities while
acting, the choice in the loss and a drawn choice for bootstraps. In every mode π is detached and the value loss sees
the stored choice, so it gives the heads no gradient; with `shared=False` it gives the LSTM none either.

PopArt (van Hasselt et al., 2016): the critic predicts (R − μ)/σ; when μ and σ follow the returns, its last layer is
rescaled so that its predictions of R stay the same. Here μ and σ are moving averages over updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.collect import Final, Sequences
from headway.kits.grow.factored.space import Factored
from headway.kits.grow.knobs import RecurrentKnobs
from headway.kits.grow.network import Packed, RecurrentNetwork, pack
from headway.kits.practice import gae, ppo, standardised

_FOLLOW = 0.1  # of μ and σ: how much one update moves them


@dataclass(slots=True)
class RecurrentUpdate:
    """What one update did."""

    stats: dict[str, float] = field(default_factory=dict)  # means over the last pass
    passes: int = 0
    first_ratios: tuple[float, float] = (1.0, 1.0)  # least and greatest of the first pass's first minibatch
    heads: dict[str, dict[str, float]] = field(default_factory=dict)  # name → entropy, use, …
    judged: Judged | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A rollout in the eyes of the critic, [time, copy]."""

    values: NDArray[np.float32]
    next_values: NDArray[np.float32]
    old: Tensor  # [time × copy]: log-probabilities of what was done
    heads: dict[str, Tensor]  # the same per head
    advantages: NDArray[np.float32]
    returns: NDArray[np.float32]

    @property
    def explained_variance(self) -> float:
        """1 − var(R − V)/var(R): 1 is a perfect critic, 0 one that knows the mean alone."""
        spread = float(np.var(self.returns))
        return 1.0 - float(np.var(self.returns - self.values)) / spread if spread > 0.0 else 0.0


def forward(network: RecurrentNetwork, sequences: Sequences, packed: Packed) -> Tensor:
    """[row, width] in packed order."""
    order = packed.order
    features = sequences.features.reshape(-1, sequences.features.shape[-1])[order]
    indices = sequences.indices.reshape(sequences.steps, -1)[order]
    return network.sequence(features, indices, packed, sequences.memory(packed.first))


def masks_of(sequences: Sequences, order: Tensor) -> dict[str, Tensor]:
    return {name: mask.reshape(-1, *mask.shape[2:])[order] for name, mask in sequences.masks.items()}


def precision(network: RecurrentNetwork, knobs: RecurrentKnobs) -> Any:
    """bfloat16 on CUDA; scores and values leave the network as float32."""
    kind = network.means.device.type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=knobs.bf16 and kind == "cuda")


def _value(
    network: RecurrentNetwork, output: Tensor, masks: dict[str, Tensor], rng: torch.Generator | None = None
) -> Tensor:
    """[row]: the value of a state as acting sees it, normalised; with `rng` as a bootstrap sees it."""
    critic = network.shape.critic
    if critic == "state":
        return network.value(output, None)
    shares = lead_shares(network.shape.space, network.scores(output), masks)
    if critic == "marginal":
        return (shares * network.values_by_lead(output)).sum(-1)
    if rng is None:
        return network.value(output, shares)
    return network.value(output, torch.multinomial(shares, 1, generator=rng)[:, 0])


@torch.no_grad()
def judge(
    network: RecurrentNetwork,
    sequences: Sequences,
    groups: list[Packed],
    knobs: RecurrentKnobs,
    rng: torch.Generator,
    masks_after: dict[str, Tensor] | None = None,
) -> Judged:
    """Values, advantages and the acting policy's log-probabilities, in the minibatches of the first pass."""
    space = network.shape.space
    horizon, count = sequences.rewards.shape
    values = torch.empty(horizon * count, device=network.means.device)
    old = torch.empty_like(values)
    heads = {name: torch.empty_like(values) for name in space.names}
    actions = sequences.actions.reshape(-1, len(space.heads))
    with precision(network, knobs):
        for packed in groups:
            masks = masks_of(sequences, packed.order)
            with torch.enable_grad():  # as in `loss`: without gradients torch's LSTM differs in the last bit
                output = forward(network, sequences, packed)
                choices = chosen(space, network.scores(output), masks, actions[packed.order])
            old[packed.order] = choices.joint.detach()
            for name, log in choices.logs.items():
                heads[name][packed.order] = log.detach()
            values[packed.order] = _value(network, output.detach(), masks)
        mean, deviation = network.value_scale
        told = (values * deviation + mean).reshape(horizon, count).cpu().numpy()
        next_values = np.empty_like(told)
        next_values[:-1] = told[1:]

        def follow(final: Final, masks: dict[str, Tensor]) -> NDArray[Any]:
            output, _ = network.step(final.features, final.indices, final.memory)
            after: NDArray[Any] = (_value(network, output, masks, rng) * deviation + mean).cpu().numpy()
            return after

        next_values[-1] = follow(sequences.last, masks_after or {})
        for final in sequences.finals:
            next_values[final.time, final.rows.cpu().numpy()] = follow(final, {})
    advantages, returns = gae(
        sequences.rewards,
        told,
        next_values,
        sequences.terminated,
        sequences.truncated,
        gamma=knobs.gamma,
        lam=knobs.lam,
    )
    return Judged(told, next_values, old, heads, advantages, returns)


@torch.no_grad()
def rescale(network: RecurrentNetwork, returns: NDArray[Any], follow: float = _FOLLOW) -> None:
    """PopArt: move the scale towards these returns; the critic's predictions stay the same."""
    old_mean, old_deviation = network.value_scale.tolist()
    mean, square = float(returns.mean()), float(np.square(returns, dtype=np.float64).mean())
    if (old_mean, old_deviation) != (0.0, 1.0):
        mean = old_mean + follow * (mean - old_mean)
        square = (old_deviation**2 + old_mean**2) * (1.0 - follow) + follow * square
    deviation = max(float(np.sqrt(max(square - mean**2, 0.0))), 1e-3)
    weight, bias = network.part("value.1.weight"), network.part("value.1.bias")
    weight.mul_(old_deviation / deviation)
    bias.copy_((old_deviation * bias + old_mean - mean) / deviation)
    network.value_scale.copy_(torch.tensor([mean, deviation]))


def loss(
    network: RecurrentNetwork,
    sequences: Sequences,
    packed: Packed,
    knobs: RecurrentKnobs,
    *,
    old: Tensor,
    advantage: Tensor,
    returns: Tensor,
    values: Tensor,
) -> tuple[dict[str, Tensor], Choices]:
    """The parts of the loss: "policy", "value", "entropy" and their weighted sum "total"; all inputs [row], packed."""
    space, order = network.shape.space, packed.order
    actions = sequences.actions.reshape(-1, len(space.heads))[order]
    with precision(network, knobs):
        output = forward(network, sequences, packed)
        scores = network.scores(output)
        lead = None if network.shape.critic == "state" else actions[:, 0]
        value = network.value(output if knobs.shared else output.detach(), lead)
    choices = chosen(space, scores, masks_of(sequences, order), actions)
    policy = ppo.surrogate(choices.joint, old, advantage, clip=knobs.clip)
    critic = ppo.value_loss(value, returns, values, clip=knobs.value_clip or None)
    entropy = entropy_bonus(choices, knobs.entropy_heads, by=knobs.entropy_by)
    total = policy + knobs.value * critic - knobs.entropy * entropy
    return {"total": total, "policy": policy, "value": critic, "entropy": entropy}, choices


def minibatches(sequences: Sequences, knobs: RecurrentKnobs, rng: np.random.Generator, device: str) -> list[Packed]:
    """Copies in a random order, divided into minibatches."""
    count = sequences.begins.shape[1]
    parts = np.array_split(rng.permutation(count), min(knobs.minibatches, count))
    return [pack(sequences.begins, np.sort(part), device) for part in parts]


def update(
    network: RecurrentNetwork,
    optimiser: torch.optim.Optimizer,
    sequences: Sequences,
    knobs: RecurrentKnobs,
    rng: np.random.Generator,
    draws: torch.Generator,
    *,
    masks_after: dict[str, Tensor] | None = None,
    paid: bool = True,
    watch: bool = False,
) -> RecurrentUpdate:
    """Pass over the rollout until `epochs` are done or the policy has changed enough.

    While the world has never paid anything (`paid` is false), advantages are the critic's noise, which standardising
    would blow up to size one: they count as 0, so that exploration goes on until there is something to learn.
    """
    device = network.means.device
    groups = minibatches(sequences, knobs, rng, str(device))
    judged = judge(network, sequences, groups, knobs, draws, masks_after)
    if knobs.returns == "popart":
        rescale(network, judged.returns)
    mean, deviation = network.value_scale
    flat = {
        "old": judged.old,
        "advantage": torch.as_tensor(standardised(judged.advantages.ravel()) * paid, device=device),
        "returns": (torch.as_tensor(judged.returns.ravel(), device=device) - mean) / deviation,
        "values": (torch.as_tensor(judged.values.ravel(), device=device) - mean) / deviation,
    }
    done = RecurrentUpdate(judged=judged)
    for turn in range(knobs.epochs):
        if turn and knobs.minibatches > 1:
            groups = minibatches(sequences, knobs, rng, str(device))
        stats: list[Tensor] = []
        for number, packed in enumerate(groups):
            rows = {name: tensor[packed.order] for name, tensor in flat.items()}
            parts, choices = loss(network, sequences, packed, knobs, **rows)
            if turn == 0 and number == 0:
                ratio = torch.exp(choices.joint.detach() - rows["old"])
                done.first_ratios = float(ratio.min()), float(ratio.max())
            norm = take_step(network, optimiser, parts["total"], knobs)
            stats.append(_stats(parts, choices, rows["old"], norm, knobs))
        done.passes = turn + 1
        names = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm")
        done.stats = dict(zip(names, torch.stack(stats).mean(0).tolist(), strict=True))
        if knobs.target_kl and done.stats["kl"] > 1.5 * knobs.target_kl:
            break
    if watch:
        done.heads = _by_head(network, sequences, judged.heads, groups, knobs)
    return done


def take_step(
    network: RecurrentNetwork, optimiser: torch.optim.Optimizer, total: Tensor, knobs: RecurrentKnobs
) -> Tensor:
    """One step of the optimiser; nothing changes if the gradient is not finite."""
    optimiser.zero_grad(set_to_none=True)
    total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    norm = torch.nn.utils.clip_grad_norm_(network.parameters(), knobs.most_norm or float("inf"))
    if bool(torch.isfinite(norm)):
        optimiser.step()
    return norm


@torch.no_grad()
def _stats(parts: dict[str, Tensor], choices: Choices, old: Tensor, norm: Tensor, knobs: RecurrentKnobs) -> Tensor:
    new = choices.joint
    return torch.stack([
        parts["policy"], parts["value"], parts["entropy"], ppo.divergence(new, old),
        ppo.clip_fraction(new, old, clip=knobs.clip), norm,
    ])  # fmt: skip


def _by_head(
    network: RecurrentNetwork, sequences: Sequences, old: dict[str, Tensor], groups: list[Packed], knobs: RecurrentKnobs
) -> dict[str, dict[str, float]]:
    """Per head, over the steps that use it: see `metrics.py`; the gradient is that of the last minibatch."""
    packed = groups[-1]
    actions = sequences.actions.reshape(-1, len(network.shape.space.heads))[packed.order]
    with torch.no_grad(), precision(network, knobs):
        scores, masks = network.scores(forward(network, sequences, packed)), masks_of(sequences, packed.order)
        choices = chosen(network.shape.space, scores, masks, actions)
    told: dict[str, dict[str, float]] = {}
    for name, entropy in choices.entropies.items():
        counts = choices.counts[name]
        gradients = [one.grad for key, one in network.named().items() if key.startswith(f"head.{name}.")]
        moved = torch.exp(choices.logs[name] - old[name][packed.order]) - 1.0
        told[name] = {
            "entropy": float(ppo.masked_mean(entropy, counts)),
            "use": float(counts.float().mean()),
            "gradient_norm": float(np.sqrt(sum(float(grad.square().sum()) for grad in gradients if grad is not None))),
            "clip_fraction": float(ppo.masked_mean((moved.abs() > knobs.clip).float(), counts)),
        }
    return told


@dataclass(frozen=True, slots=True)
class Choices:
    """Log-probabilities and entropies of actions, [row] per head; exactly 0 where the head does not count."""

    logs: dict[str, Tensor]
    entropies: dict[str, Tensor]  # normalised: 1 is uniform over what is allowed
    counts: dict[str, Tensor]  # bool: whether the head counts
    joint: Tensor


def chosen(space: Factored, scores: Mapping[str, Tensor], masks: Mapping[str, Tensor], actions: Tensor) -> Choices:
    """What the present scores say about actions [row, head]; masks as a world gives them."""
    lead = actions[:, 0]
    table = torch.tensor(space.relevant, device=actions.device)
    logs: dict[str, Tensor] = {}
    entropies: dict[str, Tensor] = {}
    counts: dict[str, Tensor] = {}
    for place, head in enumerate(space.heads):
        mask = masks.get(head.name)
        if mask is not None and head.name in space.conditional:
            mask = mask[torch.arange(len(lead), device=lead.device), lead]
        log = ppo.categorical(scores[head.name], mask)
        used = table[lead, place]
        taken = log.gather(1, actions[:, place, None])[:, 0]
        zero = torch.zeros_like(taken)
        logs[head.name] = torch.where(used, taken, zero)
        entropies[head.name] = torch.where(used, _entropy(log, mask), zero)
        counts[head.name] = used
    joint = torch.stack(list(logs.values())).sum(0) if len(logs) > 1 else logs[space.lead.name]
    return Choices(logs, entropies, counts, joint)


def _entropy(log: Tensor, mask: Tensor | None) -> Tensor:
    """[row] in 0 … 1; 0 where a single choice is allowed."""
    most = log.new_tensor(log.shape[-1]) if mask is None else mask.sum(-1).to(log.dtype)
    whole: Tensor = ppo.entropy_of(log) / most.clamp_min(2.0).log()
    return whole


def entropy_bonus(choices: Choices, weights: Mapping[str, float], *, by: str = "use") -> Tensor:
    """Σ_head weight · entropy.

    Entropy is divided by the log of the number of allowed choices: 1 is uniform. The bonus of a head is its weight
    times the mean over the steps that use it, times the share of steps that do (`by="use"`; "head": without the share).
    """
    parts = [
        weights.get(name, 1.0) * (entropy.mean() if by == "use" else ppo.masked_mean(entropy, choices.counts[name]))
        for name, entropy in choices.entropies.items()
    ]
    return torch.stack(parts).sum()


def lead_shares(space: Factored, scores: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> Tensor:
    """[row, lead choice]: the probabilities of the lead, without a gradient."""
    first = space.lead.name
    return ppo.categorical(scores[first].detach(), masks.get(first)).exp()
