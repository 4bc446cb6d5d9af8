"""The weights of a policy: all of a model, or a LoRA adapter over a model that stays as it is.

Both kinds offer the same: a module to run, its frozen start, a copy for engines, and checkpoints. What trains them is the
learner. Checkpoints hold a whole model in the Hugging Face layout, an adapter besides in PEFT's.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from drmas_dsl.graph import settings
from runtime import models
from runtime.engines.protocol import takes_adapters
from runtime.learning import shards

NAME = "adapter"  # of the adapter within the model, and of its folder in a checkpoint


class Weights(Protocol):
    """What a learner trains; `net` is in float32 and in evaluation mode."""

    net: Any

    def start(self) -> Any:
        """A context that gives the module as it was at the start."""
        ...

    def to(self, device: torch.device) -> None:
        """Move all of it, in place."""
        ...

    def export(self) -> dict[str, Tensor]:
        """A copy of what the model's engine takes (see `takes_adapters`) on the CPU, in float32: the model's weights, tied
        ones once, under their first name; or the adapter's, see `served_adapter`."""
        ...

    def save(self, folder: Path) -> None:
        """Write a checkpoint (on the first rank)."""
        ...

    def load(self, folder: Path) -> None:
        """Read what `save` wrote. Raises UserError, or an error of reading, where there is nothing that fits."""
        ...


class FullWeights:
    """All weights of the model are the policy's. `reference`: keep a frozen copy of the start."""

    def __init__(self, model: settings.Model, base: str, device: torch.device, reference: bool) -> None:
        self._name = model.name
        self.net = models.load_model(model, base, "float32").to(device)
        self._start = copy.deepcopy(self.net).requires_grad_(False) if reference else None
        if model.learner.checkpointing:
            recompute_layers(self.net)
        for net in (self.net, self._start):
            if net is not None:
                shards.shard(net, device)

    @contextmanager
    def start(self) -> Iterator[Any]:
        """See `Weights`; only with `reference`."""
        yield self._start

    def to(self, device: torch.device) -> None:
        """See `Weights`."""
        self.net.to(device)
        if self._start is not None:
            self._start.to(device)

    def export(self) -> dict[str, Tensor]:
        """See `Weights`."""
        return _copies(self.net.named_parameters())

    def save(self, folder: Path) -> None:
        """See `Weights`."""
        _save_model(self.net, self.export(), folder)

    def load(self, folder: Path) -> None:
        """See `Weights`."""
        saved = models.load_folder(str(folder), self._name, torch.float32)
        _overwrite(self.net.named_parameters(), dict(saved.named_parameters()))


class AdapterWeights:
    """A LoRA adapter over the model, which no update changes and which is its own reference.

    `seed` decides the adapter's start, which changes nothing that the model computes.
    """

    def __init__(self, model: settings.Model, base: str, device: torch.device, lora: settings.Lora, seed: int) -> None:
        from peft import LoraConfig, get_peft_model

        self._alone = takes_adapters(model)
        net = models.load_model(model, base, "float32")
        config = LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            target_modules=list(lora.targets) or "all-linear",
            task_type="CAUSAL_LM",
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net = get_peft_model(net, config, adapter_name=NAME).to(device).eval()
        if model.learner.checkpointing:
            recompute_layers(self.net)
        shards.shard(self.net, device)

    @contextmanager
    def start(self) -> Iterator[Any]:
        """See `Weights`."""
        with self.net.disable_adapter():
            yield self.net

    def to(self, device: torch.device) -> None:
        """See `Weights`."""
        self.net.to(device)

    def export(self) -> dict[str, Tensor]:
        """See `Weights`."""
        config = self.net.peft_config[NAME]
        return _scaled(self._saved(), config.lora_alpha / config.r) if self._alone else self._merged()

    def _merged(self) -> dict[str, Tensor]:
        """The model's weights with the adapter in them."""
        model = self.net.get_base_model()
        merged = {
            name.replace(".base_layer.", "."): tensor
            for name, tensor in _copies(model.named_parameters()).items()
            if ".lora_" not in name
        }
        for name, module in model.named_modules():
            if hasattr(module, "get_delta_weight"):
                merged[f"{name}.weight"] += shards.whole(module.get_delta_weight(NAME).detach()).cpu()
        return merged

    def save(self, folder: Path) -> None:
        """See `Weights`."""
        from safetensors.torch import save_file

        tensors = self._saved()
        _save_model(self.net.get_base_model(), self._merged(), folder)
        if shards.rank() == 0:
            self.net.peft_config[NAME].save_pretrained(folder / NAME)
            save_file(tensors, folder / NAME / "adapter_model.safetensors")

    def load(self, folder: Path) -> None:
        """See `Weights`."""
        from safetensors.torch import load_file

        saved = load_file(folder / NAME / "adapter_model.safetensors")
        _overwrite(self._adapter(), saved)

    def _saved(self) -> dict[str, Tensor]:
        return _copies(self._adapter())

    def _adapter(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The adapter's factors, under the names that PEFT gives them in a file."""
        named = self.net.named_parameters()
        return ((name.replace(f".{NAME}.", "."), value) for name, value in named if value.requires_grad)


def served_adapter(folder: Path) -> dict[str, Tensor]:
    """The adapter in a checkpoint as engines take it: LoRA factors under PEFT's names, the second with the scale in it.

    Raises:
        OSError, ValueError: there is none, or it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / NAME / "adapter_config.json").read_text(encoding="utf-8"))
        return _scaled(load_file(folder / NAME / "adapter_model.safetensors"), config["lora_alpha"] / config["r"])
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"its adapter cannot be read: {error}") from error


def _scaled(factors: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    return {name: value * scale if ".lora_B." in name else value for name, value in factors.items()}


def recompute_layers(net: Any) -> None:
    """Let every layer keep only what it is given and compute the rest again in its backward pass. Transformers' own way
    works only in training mode, in which models drop out activations at random; this one knows no modes."""
    for layer in shards.layers(net):
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)


def _copies(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    return {name: shards.whole(value.detach()).to("cpu", copy=True) for name, value in parameters}


def _save_model(net: Any, weights: Mapping[str, Tensor], folder: Path) -> None:
    if shards.rank() == 0:
        net.save_pretrained(folder, state_dict=weights)


def _overwrite(parameters: Iterable[tuple[str, Tensor]], saved: Mapping[str, Tensor]) -> None:
    """Put saved values in place, names and shapes being the same."""
    own = dict(parameters)
    if own.keys() != saved.keys():
        raise ValueError(f"other parameters are saved there: {sorted(own.keys() ^ saved.keys())[0]}, …")
    with torch.no_grad():
        for name, parameter in own.items():
            if parameter.shape != saved[name].shape:
                raise ValueError(f"{name} has shape {tuple(saved[name].shape)} there")
            parameter.copy_(shards.part(saved[name].to(parameter.device), parameter))
