"""A sample's noise and condition depend on its seed and index alone."""

import torch

from dualsolver.draws import draw


def test_a_sample_is_the_same_in_any_batch():
    whole = draw((3, 4), range(10), 5, range(40))
    for indices in ([17], [39, 3], range(10, 20)):
        part = draw((3, 4), range(10), 5, indices)
        assert torch.equal(part.noise, whole.noise[list(indices)])
        assert part.items == [whole.items[i] for i in indices]


def test_samples_are_independent_across_indices_and_seeds():
    noise = torch.cat([draw((16,), range(10), seed, range(500)).noise for seed in (0, 1)])
    assert len(torch.unique(noise[:, 0])) == len(noise)
    correlation = noise @ noise.T / 16 - torch.eye(len(noise))
    off = correlation[~torch.eye(len(noise), dtype=torch.bool)]
    assert abs(float(off.mean())) < 2e-3
    assert abs(float(off.std()) - 0.25) < 5e-3  # 1 / sqrt(16)
    assert abs(float(noise.mean())) < 0.03
    assert abs(float(noise.std()) - 1) < 0.03


def test_every_item_comes_about_equally_often_and_not_with_the_noise():
    noise, items = draw((4,), range(10), 0, range(4000))
    counts = torch.bincount(torch.tensor(items))
    assert counts.min() > 330
    assert counts.max() < 470
    means = torch.stack([noise[torch.tensor(items) == i].mean(0) for i in range(10)])
    assert float(means.abs().max()) < 0.2
