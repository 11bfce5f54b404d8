"""Hosts and seeds: every blueprint learns, gradients reach what they should, and subsets are what they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headway.kits.grow.morph.blueprints import BLUEPRINTS, EMPTY, KERNELS, NAMES, SLOTS, STYLES, WIDTH
from headway.kits.grow.morph.data import digits, material, teachers
from headway.kits.grow.morph.epoch import Moments, learn
from headway.kits.grow.morph.host import TRUNK, ablations, amplitude, cross_entropy, fresh_trunk, groups, logits, marks
from headway.kits.grow.morph.kernels import ROW, delta, fresh, row_size
from headway.nouns.errors import InvalidInput

HOSTS = 6
LARGEST = {
    "conv": "CONV_HEAVY",
    "depthwise": "DEPTHWISE",
    "dense": "MLP",
    "attention": "FLEX_ATTENTION",
    "norm": "NORM",
}


def seeded(names, *, styles=0, alpha=1.0, isolated=False, hosts=HOSTS, seed=0):
    """(trunk, groups) of hosts that all have these blueprints in their slots."""
    generator = torch.Generator().manual_seed(seed)
    blueprints = torch.tensor([[NAMES.index(name) if name else EMPTY for name in names]] * hosts)
    rows = torch.zeros(hosts, SLOTS, ROW)
    for slot, name in enumerate(names):
        if name:
            rows[:, slot] = fresh(blueprints[:, slot], generator)
    alphas, chosen = torch.full((hosts, SLOTS), float(alpha)), torch.full((hosts, SLOTS), styles)
    strengths = amplitude(alphas, chosen)
    apart = torch.full((hosts, SLOTS), isolated)
    marked = marks(blueprints, chosen, apart)
    return fresh_trunk(hosts, generator), groups(rows, blueprints, strengths, marked, blueprints < EMPTY)


def moments(rows):
    return Moments(torch.zeros_like(rows), torch.zeros_like(rows), torch.zeros(len(rows)))


def trained(trunk, seeds, batches=60, rate=0.02):
    """The mean loss of the seeds' hosts before and after, on training images; trunks do not learn."""
    split, tasks = digits().train, torch.zeros(len(trunk), dtype=torch.long)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(len(split), (batches, len(trunk), 48), generator=generator)
    kept, memory = trunk.clone(), [moments(group.row) for group in seeds]
    before = loss_of(kept, seeds)
    for batch in drawn:
        still = kept.clone()
        learn(still, moments(still), seeds, memory, split, tasks, batch[None], rate=rate)
    return before, loss_of(kept, seeds)


def loss_of(trunk, seeds):
    split = digits().train
    images = split.images[:200].expand(len(trunk), -1, -1, -1)
    with torch.no_grad():
        scores = logits(trunk, images, seeds, [group.row for group in seeds])
        return float(cross_entropy(scores, split.labels[:, :200].expand(len(trunk), -1)).mean())


def gradient_upstream(trunk, seeds, graft="residual"):
    """The norm of the loss's gradient at the first block of the trunk, per host."""
    split = digits().train
    leaf = trunk.clone().requires_grad_(True)
    scores = logits(
        leaf, split.images[:64].expand(len(trunk), -1, -1, -1), seeds, [group.row for group in seeds], graft
    )
    loss = cross_entropy(scores, split.labels[:, :64].expand(len(trunk), -1)).sum()
    return torch.autograd.grad(loss, leaf)[0][:, :32].norm(dim=1)


def check_learns(name, style):
    trunk, seeds = seeded((name, None, None), styles=style)
    before, after = trained(trunk, seeds)
    assert after < before - 0.05, (name, STYLES[style], before, after)
    assert (gradient_upstream(trunk, seeds) > 1e-4).all(), (name, STYLES[style])


@pytest.mark.parametrize("name", ["NORM", "LORA"])
def test_a_blueprint_learns_and_passes_the_gradient_on(name: str) -> None:
    check_learns(name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(BLUEPRINTS))
def test_every_blueprint_learns_and_passes_the_gradient_on(name: str) -> None:
    check_learns(name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("style", range(len(STYLES)))
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_learns_in_every_style_and_passes_the_gradient_on(kernel: str, style: int) -> None:
    check_learns(LARGEST[kernel], style)


@pytest.mark.parametrize("name", list(BLUEPRINTS))
def test_a_new_seed_computes_nothing_and_has_a_gradient(name: str) -> None:
    for style in range(len(STYLES)):
        trunk, seeds = seeded((name, None, None), styles=style, hosts=2)
        x = torch.randn(2, 5, 16, 8)
        assert not delta(seeds[0].kernel, x, seeds[0].row, seeds[0].blueprints)[0].any()
        row = seeds[0].row.requires_grad_(True)
        scores = logits(trunk, digits().train.images[:16].expand(2, -1, -1, -1), seeds, [row])
        loss = cross_entropy(scores, digits().train.labels[:, :16].expand(2, -1))
        assert (torch.autograd.grad(loss.sum(), row)[0].norm(dim=1) > 0).all()


@pytest.mark.parametrize("name", list(BLUEPRINTS))
def test_padding_never_learns(name: str) -> None:
    trunk, seeds = seeded((name, None, None), styles=3, hosts=2)
    drawn = torch.randint(1000, (3, 2, 16), generator=torch.Generator().manual_seed(0))
    learn(
        trunk, moments(trunk), seeds, [moments(seeds[0].row)], digits().train, torch.zeros(2).long(), drawn, rate=0.02
    )
    assert int((seeds[0].row != 0).sum(dim=1).max()) <= BLUEPRINTS[name].parameters
    assert int((seeds[0].row != 0).sum(dim=1).max()) >= 0.7 * BLUEPRINTS[name].parameters


def test_alpha_0_changes_nothing() -> None:
    trunk, seeds = seeded(("MLP", "CONV_HEAVY", "FLEX_ATTENTION"), alpha=0.0)
    for group in seeds:
        group.row.normal_()
    images = digits().train.images[:20].expand(HOSTS, -1, -1, -1)
    alone = logits(trunk, images, [], [])
    assert torch.equal(logits(trunk, images, seeds, [group.row for group in seeds]), alone)


def test_isolated_seeds_learn_and_change_neither_the_output_nor_the_host() -> None:
    trunk, seeds = seeded(("NORM", None, None), alpha=0.0, isolated=True)
    images, labels = digits().train.images[:64].expand(HOSTS, -1, -1, -1), digits().train.labels[:, :64]
    results = []
    for some in ([], seeds):
        leaf, rows = trunk.clone().requires_grad_(True), [group.row.requires_grad_(True) for group in some]
        scores = logits(leaf, images, some, rows)
        loss = cross_entropy(scores, labels.expand(HOSTS, -1)).sum()
        results.append((scores.detach(), torch.autograd.grad(loss, [leaf, *rows])))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.allclose(results[0][1][0], results[1][1][0], atol=1e-7)
    assert (results[1][1][1].norm(dim=1) > 0).all()


def test_the_lerp_graft_freezes_what_lies_upstream_at_alpha_1() -> None:
    trunk, seeds = seeded((None, None, "NORM"))
    assert (gradient_upstream(trunk, seeds, "lerp") == 0).all()
    assert (gradient_upstream(trunk, seeds, "residual") > 0).all()


def test_every_ablation_equals_a_separate_forward() -> None:
    trunk, seeds = seeded(("CONV_SMALL", "MLP", "ATTENTION"), styles=3, alpha=0.7)
    mixed, others = seeded(("NORM", None, "DEPTHWISE"), seed=5, hosts=HOSTS)
    for some_trunk, some in ((trunk, seeds), (mixed, others)):
        for group in some:
            group.row.add_(0.1 * torch.randn(group.row.shape, generator=torch.Generator().manual_seed(2)))
        images = digits().val.images[:30]
        ablated = ablations(some_trunk, images, some)
        assert len(ablated.scores) == HOSTS * 2 ** len(some)
        for subset in range(1 << SLOTS):
            kept = [group for group in some if subset >> group.slot & 1]
            alone = logits(some_trunk, images.expand(HOSTS, -1, -1, -1), kept, [group.row for group in kept])
            assert torch.allclose(ablated.scores[ablated.places[:, subset]], alone, atol=1e-4)
        assert torch.equal(ablated.owners[ablated.places], torch.arange(HOSTS)[:, None].expand(-1, 8))


def test_a_conv_seed_is_the_convolution_of_torch() -> None:
    _, seeds = seeded(("CONV_HEAVY", None, None), hosts=2)
    row = seeds[0].row.normal_(generator=torch.Generator().manual_seed(3))
    x = torch.randn(2, 5, 16, 8, generator=torch.Generator().manual_seed(4))
    ours = delta("conv", x, row, seeds[0].blueprints)[0]
    for host in range(2):
        inner, bias, outer, outer_bias, _ = row[host].split([576, 8, 64, 8, 16])
        grid = x[host].view(5, 4, 4, 8).permute(0, 3, 1, 2)
        hidden = torch.relu(
            torch.nn.functional.conv2d(grid, inner.view(3, 3, 8, 8).permute(3, 2, 0, 1), bias, padding=1)
        )
        wanted = hidden.permute(0, 2, 3, 1).reshape(5, 16, 8) @ outer.view(8, 8) + outer_bias
        assert torch.allclose(ours[host], wanted, atol=1e-4)


def test_hosts_do_not_depend_on_their_neighbours() -> None:
    trunk, seeds = seeded(("NORM", "LORA", None))
    drawn = torch.randint(1000, (2, HOSTS, 8), generator=torch.Generator().manual_seed(0))
    broken, again = trunk.clone(), seeded(("NORM", "LORA", None))[1]
    broken[0] = float("nan")
    for some_trunk, some in ((trunk, seeds), (broken, again)):
        memory = [moments(group.row) for group in some]
        learn(
            some_trunk, moments(some_trunk), some, memory, digits().train, torch.zeros(HOSTS).long(), drawn, rate=0.02
        )
    assert broken[0].isnan().all()
    assert torch.equal(trunk[1:], broken[1:])
    assert all(torch.equal(ours.row[1:], theirs.row[1:]) for ours, theirs in zip(seeds, again, strict=True))


def test_the_splits_of_the_digits_share_no_image_and_have_every_class() -> None:
    data = digits()
    sizes = [len(split) for split in (data.train, data.val, data.test)]
    assert sizes == [1097, 200, 500]
    for split in (data.train, data.val, data.test):
        assert set(split.labels.unique().tolist()) == set(range(10))
    with np.load("src/headway/kits/grow/morph/digits.npz") as stored:
        whole = np.sort(stored["images"].sum(axis=1))
    parts = torch.cat([split.images.flatten(1).sum(dim=1) for split in (data.train, data.val, data.test)])
    assert np.allclose(np.sort(parts.numpy()), whole / 8 - 64, atol=1e-3)


def test_teachers_have_balanced_classes_and_an_unknown_material_is_refused() -> None:
    data = teachers(seed=1, tasks=3)
    assert data.tasks == 3
    counts = torch.cat([data.train.labels, data.val.labels, data.test.labels], dim=1)
    assert all(int(row.bincount().max() - row.bincount().min()) <= 1 for row in counts)
    with pytest.raises(InvalidInput, match="digit"):
        material("digit")


def test_sizes_are_what_blueprints_say() -> None:
    assert TRUNK == 346
    assert len(NAMES) == 13
    assert EMPTY == 13
    assert BLUEPRINTS["NORM"].parameters == 2 * WIDTH + 16
    assert max(blueprint.parameters for blueprint in BLUEPRINTS.values()) == row_size("dense") == ROW
