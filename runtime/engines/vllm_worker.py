"""What runs in vLLM's workers, where its tensors are: the exchange of weights and of adapters in place.

Every function takes the worker first, and is sent to all workers of an engine by `collective_rpc`; nothing here knows requests
or policies. An adapter is known by its slot, a number from 1 on. vLLM offers adapters from folders only; these come from memory,
by the same steps as its own `LRUCacheWorkerLoRAManager.add_adapter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def parameters(worker: Any) -> int:
    """How many this worker holds."""
    return sum(parameter.numel() for parameter in worker.get_model().parameters())


def exchange_weights(worker: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Overwrite the model's weights. On the CPU layers keep a packed copy of theirs; reloading renews those of linear layers, but
    not that of a head that is tied to the embedding, which would go on with the old weights without an error."""
    worker.reload_weights(weights_iterator=iter(weights.items()))
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    for module in worker.get_model().modules():
        if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)


def add_zero_adapters(worker: Any, slots: Sequence[int]) -> None:
    """Fill the slots with adapters that change nothing."""
    manager = worker.model_runner.lora_manager._adapter_manager
    for slot in slots:
        manager.add_adapter(manager.create_dummy_lora(slot, 1, worker.get_model().embedding_modules))


def exchange_adapter(worker: Any, slot: int, weights: Mapping[str, torch.Tensor]) -> None:
    """Overwrite a slot's adapter by LoRA factors under PEFT's names, with the scale in them.

    Raises:
        ValueError: they adapt a module that vLLM does not adapt in this model.
    """
    from vllm.lora.lora_model import LoRAModel
    from vllm.lora.peft_helper import PEFTHelper

    lora = worker.model_runner.lora_manager
    manager, names = lora._adapter_manager, getattr(worker.get_model(), "hf_to_vllm_mapper", None)
    rank = max(min(tensor.shape) for tensor in weights.values())
    adapter = LoRAModel.from_lora_tensors(
        slot,
        dict(weights),
        PEFTHelper(r=rank, lora_alpha=rank, target_modules=[]),
        device="cpu",
        dtype=lora.lora_config.lora_dtype,
        weights_mapper=names and names.get_rename_mapper(),
    )
    manager.remove_adapter(slot)
    manager.add_adapter(adapter)  # which packs what vLLM runs as one module: queries, keys and values; gate and up
    if unknown := sorted(adapter.loras.keys() - manager.modules.keys()):
        raise ValueError(f"vLLM has no adapters for {unknown[0]}")
    manager.activate_adapter(slot)
