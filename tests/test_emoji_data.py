"""The captioned emoji: what is drawn, what is held out, and how texts become tokens."""

import io
import json
import tarfile

import pytest
import torch
from PIL import Image

from dualsolver.zoo.emoji import data, drawing, sources, texts

ROWS = tuple(
    data.Row(name, ("red", name.split()[0].rstrip(":")), chr(0x1F600 + i), style, i % 5, False)
    for i, name in enumerate(("red heart", "angry face", "flag: Japan", "woman: dark skin tone"))
    for style in data.STYLES
)


def packed(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


def png(colour):
    buffer = io.BytesIO()
    Image.new("RGBA", (64, 64), colour).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_picture_is_found_by_its_characters_and_put_on_white(tmp_path, monkeypatch):
    name = f"package/{drawing.FOLDERS['twemoji']}2764-fe0f.png"
    path = packed(tmp_path / "t.tgz", {name: png((255, 0, 0, 128)), "package/LICENSE": b"free"})
    monkeypatch.setattr(drawing, "archive", lambda style, folder: path)
    draw = drawing.Files("twemoji", tmp_path)
    picture = draw("❤️")
    assert picture.shape == (3, 32, 32)
    assert picture.flatten(1).float().mean(1).tolist() == [
        255,
        127,
        127,
    ]  # half red, half white
    assert torch.equal(picture, draw("❤"))
    assert draw("💔") is None


def test_another_archive_than_the_pinned_one_is_refused_and_another_font_is_told_of(tmp_path):
    (tmp_path / sources.SOURCES["twemoji"].archive).write_bytes(b"something else")
    with pytest.raises(ValueError, match="not the twemoji that the shipped models saw: remove it"):
        sources.archive("twemoji", tmp_path)
    (tmp_path / "fonts-noto-color-emoji_9_all.deb").write_bytes(b"newer")
    with pytest.warns(UserWarning, match="another hash"):
        sources.archive("noto", tmp_path)


def test_a_twentieth_of_the_compositions_is_held_out_in_every_style():
    names = [f"person number {i}: {tone} skin tone" for i in range(2000) for tone in ("light", "dark")]
    share = sum(map(data.is_held_out, names)) / len(names)
    assert share == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / 4000) ** 0.5)
    assert not any(data.is_held_out(f"flag: {i}") or data.is_held_out(f"face {i}") for i in range(500))


def test_splits_have_no_name_in_common(tmp_path):
    from safetensors.torch import save_file

    rows = [
        {"name": f"hand {i}: light skin tone", "tags": [], "emoji": "x", "style": style, "subgroup": 1}
        for i in range(200)
        for style in data.STYLES
    ]
    rows = [row | {"held_out": data.is_held_out(row["name"])} for row in rows]
    save_file({"pictures": torch.zeros(600, 3, 32, 32, dtype=torch.uint8)}, tmp_path / data.PICTURES)
    (tmp_path / data.ROWS).write_text(json.dumps(rows))
    train, test = data.read("train", tmp_path), data.read("test", tmp_path)
    assert len(train) + len(test) == len(data.read("all", tmp_path)) == 600
    assert {row.name for row in train.rows}.isdisjoint(row.name for row in test.rows)
    assert 3 * 2 < len(test) < 3 * 25
    with pytest.raises(ValueError, match="no emoji in"):
        data.read("train", tmp_path / "elsewhere")


def test_shipped_captions_are_apart_and_in_no_order_of_groups():
    train, test = data.captions("train"), data.captions("test")
    assert (len(train), len(test)) == (10_727, 269)
    plain = {caption.removesuffix(", twemoji").removesuffix(", fluent 3d") for caption in train}
    assert not plain.intersection(test)
    assert {"red apple", "grinning face", "dog face", "flag: Japan"} <= plain
    assert 0.1 < sum("skin tone" in caption for caption in train[:500]) / 500 < 0.8


def test_every_style_says_the_same_of_an_emoji():
    noto, twemoji, _ = (texts.said(row) for row in ROWS[:3])
    assert [f"{text}, twemoji" for text in noto] == twemoji
    assert len(set(noto)) == 4


def test_a_t5_knows_words_and_characters_and_the_end():
    tokenizer = texts.t5_tokenizer(ROWS)
    assert tokenizer.tokenize("red heart, woman: \U0001f600") == [
        "▁red",
        "▁heart",
        ",",
        "▁woman",
        ":",
        "▁",
        "\U0001f600",
    ]
    assert tokenizer("redder").input_ids[-1] == tokenizer.eos_token_id
    assert tokenizer.unk_token_id not in tokenizer("unseen (words)!").input_ids


def test_a_gemma_reads_the_instruction_as_one_token_and_any_character_at_all():
    tokenizer = texts.gemma_tokenizer(ROWS)
    before = tokenizer(texts.instruction()).input_ids
    assert len(before) == 2
    assert tokenizer(f"{texts.instruction()}red heart").input_ids[:2] == before
    assert tokenizer.decode(tokenizer("日本").input_ids, skip_special_tokens=True) == "日本"


def test_drawn_texts_are_as_long_as_the_longest_and_dropped_ones_are_empty():
    tokenizer = texts.t5_tokenizer(ROWS)
    every = texts.tokens(tokenizer, [texts.said(row) for row in ROWS])
    empty = texts.tokens(tokenizer, [[""]])
    torch.manual_seed(0)
    some = every.drawn(torch.arange(len(ROWS)).repeat(50))
    assert some.ids.shape[1] == some.mask.sum(1).max() < texts.LONGEST
    nothing = some.dropped(texts.Tokens(empty.ids[0], empty.mask[0]), 0.25)
    gone = nothing.mask.sum(1) == 1
    assert gone.double().mean().item() == pytest.approx(0.25, abs=0.08)
    assert (nothing.ids[gone, 0] == tokenizer.eos_token_id).all()
    assert torch.equal(nothing.ids[~gone], some.ids[~gone])
