"""GM-DiT: the mixture's formulas against torch.distributions, the trunk against diffusers' DiT, the keys."""

from copy import deepcopy

import pytest
import torch
from diffusers import DiTTransformer2DModel
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

import dualsolver as ds
from dualsolver.backbones.gaussians import mean_velocity, mixture_nll
from dualsolver.backbones.gmdit_transformer import GMDiTTransformer2DModel
from dualsolver.backbones.toy import Mixture

SMALL = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8}
TRUNK = {"norm_eps": 1e-5, "num_embeds_ada_norm": 10, **SMALL}
TIMES, LABELS = torch.tensor([400.5, 3.25]), torch.tensor([4, 10])
BLOCK_KEYS = [
    *("norm1.linear", "attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0"),
    *("ff.net.0.proj", "ff.net.2"),
]
OTHER_KEYS = [
    *("pos_embed.proj", "emb.timestep_embedder.linear_1", "emb.timestep_embedder.linear_2"),
    *("proj_out_1", "proj_out_2", "gm_out.logstd_layers.1", "gm_out.logstd_layers.3"),
]


def network(seed=0, **options):
    """A small transformer with every parameter random: adaLN-zero blocks would hide what they do."""
    torch.manual_seed(seed)
    model = GMDiTTransformer2DModel(num_gaussians=3, logstd_inner_dim=16, **TRUNK, **options)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def latents(seed=1):
    return torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(seed))


def test_the_likelihood_is_that_of_torch_distributions():
    g = torch.Generator().manual_seed(0)
    means = torch.randn(3, 5, 4, 2, 2, generator=g, dtype=torch.float64)
    logweights = torch.randn(3, 5, 1, 2, 2, generator=g, dtype=torch.float64).log_softmax(1)
    logstds = torch.randn(3, 1, 1, 1, 1, generator=g, dtype=torch.float64)
    target = torch.randn(3, 4, 2, 2, generator=g, dtype=torch.float64)
    spread = logstds.exp().expand(3, 5, 4, 2, 2).permute(0, 3, 4, 1, 2)
    parts = Independent(Normal(means.permute(0, 3, 4, 1, 2), spread), 1)
    exact = MixtureSameFamily(Categorical(logits=logweights[:, :, 0].permute(0, 2, 3, 1)), parts)
    wanted = -exact.log_prob(target.permute(0, 2, 3, 1)).mean((1, 2)) / 4
    assert torch.allclose(mixture_nll(means, logweights, logstds, target), wanted, rtol=1e-12)


def test_the_mean_velocity_of_the_exact_posterior_is_the_velocity():
    """Data at three points: given x_t the velocity is (x_t - point) / t with the posterior's weights."""
    points, weights = torch.tensor([-1.0, 0.2, 1.5]).double(), torch.tensor([0.5, 0.2, 0.3]).double()
    x, t = torch.linspace(-2, 2, 9).double().view(1, 1, 3, 3), 0.4
    means = (x[:, None] - points.view(1, 3, 1, 1, 1)) / t
    log_joint = weights.log().view(1, 3, 1, 1, 1) - ((x - (1 - t) * points.view(1, 3, 1, 1, 1)) / t) ** 2 / 2
    found = mean_velocity(means, log_joint)
    pair = Mixture(points.tolist(), [1e-6] * 3, weights.tolist()).predict(ds.Flow())(x, torch.tensor(t))
    assert torch.allclose(found, pair.noise - pair.data, atol=1e-4)


def test_the_sums_of_a_half_precision_mixture_run_in_float32():
    means = torch.full((1, 2, 1, 1, 1), 1000.0, dtype=torch.bfloat16)
    logweights = torch.tensor([0.3, 0.7]).log().view(1, 2, 1, 1, 1).bfloat16()
    found = mean_velocity(means, logweights)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(1000.0, rel=1e-6)


def test_the_keys_and_the_size_are_those_of_the_released_checkpoint():
    with torch.device("meta"):
        released = GMDiTTransformer2DModel(num_gaussians=8)
    stems = OTHER_KEYS + [f"transformer_blocks.{i}.{key}" for i in range(28) for key in BLOCK_KEYS]
    wanted = {f"{s}.{kind}" for s in stems for kind in ("weight", "bias")}
    assert released.state_dict().keys() == wanted | {"emb.class_embedder.embedding_table.weight"}
    assert sum(p.numel() for p in released.parameters()) == pytest.approx(676.2e6, abs=0.05e6)


def test_the_trunk_is_diffusers_dit_given_the_same_embedding():
    """DiT embeds time and class in every block, and time at other frequencies; the rest must be one thing."""
    ours, x = network(), latents()
    theirs = DiTTransformer2DModel(in_channels=4, out_channels=3 * 5, **TRUNK).eval()
    own = {k: v for k, v in ours.state_dict().items() if not k.startswith(("emb.", "gm_out."))}
    assert not theirs.load_state_dict(own, strict=False).unexpected_keys

    class Given(nn.Module):
        def forward(self, timestep, class_labels, hidden_dtype):
            return ours.emb(timestep, class_labels, hidden_dtype)

    for block in theirs.transformer_blocks:
        block.norm1.emb = Given()
    with torch.no_grad():
        raw, found = theirs(x, TIMES, LABELS).sample, ours(x, TIMES, LABELS)
    assert torch.allclose(found["means"].flatten(1, 2), raw[:, :12], atol=1e-4)
    assert torch.allclose(found["logweights"][:, :, 0], raw[:, 12:].log_softmax(1), atol=1e-4)


def test_the_time_embedding_is_the_sinusoid_with_cosines_first():
    model, t = network(), torch.tensor([123.456])
    frequencies = torch.exp(-torch.arange(128) / 128 * torch.tensor(1e4).log())
    waves = torch.cat([(t * frequencies).cos(), (t * frequencies).sin()])[None]
    label = model.emb.class_embedder.embedding_table.weight[7]
    with torch.no_grad():
        found = model.emb(t, torch.tensor([7]), torch.float32)
        assert torch.allclose(found, model.emb.timestep_embedder(waves) + label, atol=1e-4)


def test_a_saved_variant_loads_by_subfolder_and_gives_the_same(tmp_path):
    model, x = network(), latents()
    for parameter in model.parameters():
        parameter.data = parameter.bfloat16().float()
    deepcopy(model).to(torch.bfloat16).save_pretrained(tmp_path / "transformer", variant="bf16")
    assert (tmp_path / "transformer" / "diffusion_pytorch_model.bf16.safetensors").exists()
    again = GMDiTTransformer2DModel.from_pretrained(tmp_path, subfolder="transformer", variant="bf16").eval()
    with torch.no_grad():
        wanted, found = model(x, TIMES, LABELS), again.float()(x, TIMES, LABELS)
    assert all(torch.equal(found[k], wanted[k]) for k in wanted)


def test_gradients_reach_the_time_and_survive_checkpointing():
    model, x = network(), latents()
    gradients = []
    for remember in (False, True):
        model.gradient_checkpointing = False
        if remember:
            model.enable_gradient_checkpointing()
        t = TIMES.clone().requires_grad_()
        out = model(x, t, LABELS)
        gradients += torch.autograd.grad(mean_velocity(out["means"], out["logweights"]).square().sum(), t)
    assert gradients[0].abs().min() > 0
    assert torch.allclose(*gradients)


def test_the_deviation_does_not_teach_the_embedding():
    model = network()
    model(latents(), TIMES, LABELS)["logstds"].sum().backward()
    assert model.emb.class_embedder.embedding_table.weight.grad is None
    assert model.gm_out.logstd_layers[1].weight.grad.abs().sum() > 0


def test_a_fresh_network_learns_different_components():
    """Equal means would get equal gradients for ever; a few steps on two-valued velocities must part them."""
    torch.manual_seed(0)
    model = GMDiTTransformer2DModel(num_gaussians=2, logstd_inner_dim=16, **TRUNK)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        target = torch.randint(0, 2, (16, 1, 8, 8)).float().mul(4).sub(2).expand(16, 4, 8, 8)
        out = model(torch.randn(16, 4, 8, 8), torch.rand(16) * 1000, torch.randint(0, 11, (16,)))
        loss = mixture_nll(**out, target=target).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    apart = (out["means"][:, 0] - out["means"][:, 1]).abs()
    assert apart.mean().item() > 3
    assert loss.item() < 1.0  # one Gaussian's best is 2.1


def test_labels_are_dropped_in_training_only():
    model = network(class_dropout_prob=1.0)
    embed, null = model.emb, torch.tensor([10, 10])
    assert torch.equal(embed.train()(TIMES, LABELS[[0, 0]], torch.float32), embed(TIMES, null, torch.float32))
    in_eval = embed.eval()(TIMES, LABELS[[0, 0]], torch.float32)
    assert not torch.allclose(in_eval, embed(TIMES, null, torch.float32))
