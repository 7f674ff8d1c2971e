"""What is said of an emoji in training, and the two tokenizers that read it."""

from __future__ import annotations

import inspect
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .data import Row, styled

SIZE = 4096  # entries of either vocabulary
LONGEST = 40  # tokens of a text in training
VARIANTS = 8  # texts of an emoji


class Tokens(NamedTuple):
    """Tokens (N, V, L) of V texts for each of N emoji, and which of them are there."""

    ids: Tensor
    mask: Tensor

    def drawn(self, chosen: Tensor) -> Tokens:
        """One text for each of these emoji, at random, as long as the longest: (B, L)."""
        variant = torch.randint(self.ids.shape[1], (len(chosen),))
        ids, mask = self.ids[chosen, variant], self.mask[chosen, variant]
        longest = int(mask.sum(1).max())
        return Tokens(ids[:, :longest], mask[:, :longest])

    def dropped(self, empty: Tokens, share: float) -> Tokens:
        """Replace some texts by the empty one, (1, L), for guidance."""
        chosen = torch.rand(len(self.ids), 1) < share
        width = self.ids.shape[1]
        return Tokens(
            torch.where(chosen, empty.ids[:, :width], self.ids),
            torch.where(chosen, empty.mask[:, :width], self.mask),
        )


def said(row: Row) -> list[str]:
    """`VARIANTS` texts of an emoji: mostly its caption, once each with an article, as keywords, as itself.

    >>> row = Row("red heart", ("love",), "\N{HEAVY BLACK HEART}", "twemoji", 5, False)
    >>> said(row)[4:]
    ['red heart, twemoji', 'a red heart, twemoji', 'love, twemoji', '❤, twemoji']
    """
    draw = random.Random(row.name)
    words = draw.sample(row.tags, draw.randint(1, len(row.tags))) if row.tags else row.name.split()
    article = "an" if row.name[0].lower() in "aeiou" else "a"
    others = (f"{article} {row.name}", " ".join(words), row.emoji)
    texts = [row.name] * (VARIANTS - len(others)) + list(others)
    return [styled(text, row.style).lower() for text in texts]


def tokens(tokenizer: Any, texts: Sequence[Sequence[str]], length: int = LONGEST) -> Tokens:
    """Tokenize some texts for each emoji, or texts, padded on the right."""
    tokenizer.padding_side = "right"
    flat = [text for every in texts for text in every]
    found = tokenizer(flat, padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    shape = (len(texts), len(flat) // len(texts), length)
    return Tokens(found.input_ids.view(shape), found.attention_mask.view(shape))


def instruction() -> str:
    """What `SanaPipeline` says before every prompt, unless it is told otherwise."""
    from diffusers import SanaPipeline

    lines = inspect.signature(SanaPipeline.__call__).parameters["complex_human_instruction"].default
    return "\n".join(lines)


def t5_tokenizer(rows: Sequence[Row]) -> Any:
    """Make a T5 tokenizer: all characters, and the words that occur most often."""
    from transformers import T5Tokenizer

    words, alphabet = _counted(rows)
    letters = [(character, -12.0) for character in alphabet]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -8.0), *letters]
    most = sorted((-count, word) for word, count in words.items() if len(word) > 1)[: SIZE - len(pieces)]
    pieces += [(f"▁{word}", -4.0 - place / SIZE) for place, (_, word) in enumerate(most)]
    return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=120)


def gemma_tokenizer(rows: Sequence[Row]) -> Any:
    """Make a Gemma tokenizer: byte pairs, and the whole instruction of `SanaPipeline` as one token.

    So a prompt costs the small encoder a few tokens and not some hundred.
    """
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import GemmaTokenizer

    words, alphabet = _counted(rows)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - 1, special_tokens=special, initial_alphabet=["▁", *alphabet], show_progress=False
    )
    elements = sorted(words.elements())
    trained.train_from_iterator([*elements, *(f" {word}" for word in elements)], trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = GemmaTokenizer(vocab=model["vocab"], merges=merges, add_bos_token=True)
    tokenizer.add_tokens([AddedToken(instruction(), normalized=False)])
    return tokenizer


def _counted(rows: Sequence[Row]) -> tuple[Counter[str], list[str]]:
    """All words with how often they occur, and all characters."""
    names = Counter(word for row in rows for text in said(row) for word in re.findall(r"[^\s:,]+", text))
    tags = Counter(word for row in rows for tag in row.tags for word in tag.lower().split())
    words = Counter(names | tags)
    return words, sorted({character for word in words for character in word} | set(map(chr, range(33, 127))))
