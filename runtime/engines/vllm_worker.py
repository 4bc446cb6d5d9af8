"""What runs in vLLM's workers, where its tensors are: the exchange of weights and of adapters in place.

Every function takes the worker first, and is sent to all workers of an engine by `collective_rpc`; nothing here knows requests
or policies. An adapter is known by its slot, a number from 1 on. vLLM offers adapters from folders only; these come from memory,
by the same steps as its own `LRUCacheWorkerLoRAManager.add_adapter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor


def parameters(worker: Any) -> int:
    """How many this worker holds."""
    return sum(parameter.numel() for parameter in worker.get_model().parameters())


def exchange_weights(worker: Any, weights: Mapping[str, Tensor]) -> None:
    """Overwrite the model's weights. On the CPU layers keep a packed copy of theirs; reloading renews those of linear layers, but
    not that of a head that is tied to the embedding, which would go on with the old weights without an error."""
    worker.reload_weights(weights_iterator=iter(weights.items()))
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    for module in worker.get_model().modules():
        if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)


def add_zero_adapters(worker: Any, slots: Sequence[int]) -> None:
    """Fill the slots with adapters that change nothing."""
    if worker.device.type == "cpu":
        _group_by_adapter()
    manager = worker.model_runner.lora_manager._adapter_manager
    for slot in slots:
        manager.add_adapter(manager.create_dummy_lora(slot, 1, worker.get_model().embedding_modules))
        manager.activate_adapter(slot)


def exchange_adapter(worker: Any, slot: int, weights: Mapping[str, Tensor]) -> None:
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


def _group_by_adapter() -> None:
    """Let vLLM multiply all tokens of an adapter at once. On the CPU it copies an adapter's matrices for each token of a batch."""
    from vllm.lora.ops.torch_ops import lora_ops

    lora_ops.bgmv_shrink, lora_ops.bgmv_expand_slice = _shrink, _expand_slice


def _shrink(x: Tensor, a: Tensor, out: Tensor, slots: Tensor, scale: float = 1.0) -> None:
    """out [T, R] = scale * x [T, H] times the `a` [slots, 1, R, H] of each token's slot; -1 is none."""
    for slot, rows in _groups(slots):
        out[rows, : a.shape[-2]] = scale * (x[rows].to(out.dtype) @ a[slot, 0].T.to(out.dtype))


def _expand_slice(
    x: Tensor, b: Tensor, out: Tensor, slots: Tensor, start: int, size: int, add_inputs: bool = True
) -> None:
    """Add (or set) to columns of out [T, O] what x [T, R] times the `b` [slots, 1, size, R] of each token's slot gives."""
    part = out[:, start : start + size]
    for slot, rows in _groups(slots):
        product = x[rows].to(out.dtype) @ b[slot, 0].T.to(out.dtype)
        part[rows] = part[rows] + product if add_inputs else product


def _groups(slots: Tensor) -> list[tuple[int, Tensor]]:
    """The slots in use, and the rows of each."""
    return [(slot, (slots == slot).nonzero()[:, 0]) for slot in set(slots.tolist()) if slot >= 0]
