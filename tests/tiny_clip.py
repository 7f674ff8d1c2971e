"""A tiny random CLIP in open_clip's format: a folder, and a TorchScript file as OpenAI's weights come."""

import json

import open_clip
import torch
from safetensors.torch import save_file

SIZES = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 1, "width": 64, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1},
}


def folder(path, quick_gelu=False):
    """Write open_clip_config.json and open_clip_model.safetensors."""
    path.mkdir(parents=True, exist_ok=True)
    config = SIZES | {"quick_gelu": quick_gelu}
    normal = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.25]}
    (path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": normal}))
    torch.manual_seed(0)
    model = open_clip.model.CLIP(**config)
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases start at zero, which would hide them
            torch.nn.init.normal_(parameter, std=0.05)
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()}, path / "open_clip_model.safetensors"
    )
    return path


class Parts(torch.nn.Module):
    """Scripts as OpenAI's do: the state of a CLIP, and three numbers beside it."""

    def __init__(self, state):
        super().__init__()
        for name, value in state.items():
            self._put(name.split("."), value)

    def _put(self, names, value):
        where = self
        for name in names[:-1]:
            if name not in where._modules:
                where.add_module(name, torch.nn.Module())
            where = where._modules[name]
        where.register_buffer(names[-1], value)

    def forward(self, x):
        return x


def script(state, path):
    numbers = {n: torch.tensor(1) for n in ("input_resolution", "context_length", "vocab_size")}
    torch.jit.script(Parts(dict(state) | numbers)).save(str(path))
    return path
