"""What settings are called elsewhere, and what they are here: one table for files, flags and
`ttf config convert`.

A name is compared in lower case, with `_` between its words: `--accum-steps`, `accumSteps` and
`ACCUM_STEPS` are one. A name that ends like a key here needs no row: `reference.elsewhere` finds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """Of a foreign name: the key it stands for, or the reason why there is none."""

    key: str = ""
    reason: str = ""
    needless: bool = False
    """Leaving it out changes nothing that the run computes."""


def _each(names: str, value: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), value)


_KEYS: Final[Mapping[str, str]] = {
    "data.pairs": "data_path dataset_path train_path train_file train_data pairs_path pairs_file",
    "data.bank": "bank_path bank_file doc_path docs_path documents corpus corpus_path candidates_path "
    "item_path items_path",
    "data.context": "context_path context_file",
    "data.val_split": "val_ratio val_fraction val_size validation_split validation_ratio test_size",
    "tower.query.name": "encoder encoder_type model_type model_name rnn_type rnn arch architecture "
    "query_encoder query_tower",
    "tower.doc.name": "doc_encoder document_encoder item_encoder doc_tower item_tower",
    "tower.query.hidden": "hidden_dim hidden_size hidden_units d_model rnn_hidden rnn_size "
    "gru_hidden lstm_hidden",
    "tower.query.layers": "num_layers n_layers rnn_layers gru_layers depth",
    "tower.query.bidirectional": "bidir bi_directional",
    "tower.query.dropout": "dropout_rate dropout_p drop_rate p_dropout",
    "tower.query.pool": "pooling pooling_mode pool_type",
    "miner.name": "mining_backend index_type miner_type ann ann_backend",
    "miner.k": "top_k topk num_candidates n_candidates candidates_per_query mining_k",
    "miner.negatives": "hard_negatives num_hard_negatives n_hard_negatives hard_negs num_hard_negs "
    "num_negatives n_negatives num_negs k_neg negatives_per_query",
    "miner.refresh": "mine_every mining_every mining_interval mine_interval refresh_every "
    "refresh_interval refresh_steps remine_every hard_negative_refresh index_refresh",
    "miner.start": "mining_start mine_start mine_after hard_negatives_start",
    "loss.temperature": "temp tau softmax_temperature loss_temperature",
    "loss.temperature_schedule": "temperature_decay temperature_annealing anneal_temperature",
    "loss.learn_temperature": "learnable_temperature train_temperature trainable_temperature",
    "loss.similarity": "similarity_metric sim metric_type distance",
    "loss.memory_bank": "memory_bank_size memory_size mem_bank mem_bank_size bank_size queue_size "
    "queue_len moco_k memory_queue_size xbm_size",
    "loss.memory_bank_start": "memory_bank_warmup bank_start xbm_start",
    "loss.symmetric": "symmetric_loss bidirectional_loss",
    "loss.teacher": "distill distillation distill_weight distillation_weight kd kd_weight kd_loss_weight",
    "loss.teacher_temperature": "distill_temperature distillation_temperature kd_temperature",
    "train.epochs": "num_epochs n_epochs max_epochs num_train_epochs epoch nepochs",
    "train.steps": "max_steps num_steps total_steps n_steps max_iters num_iterations train_steps",
    "train.batch_size": "bs batch batchsize micro_batch micro_batch_size micro_bs mbs "
    "train_batch_size per_device_train_batch_size per_gpu_batch_size",
    "train.accumulate": "accum accum_steps accumulation accumulation_steps accumulate_steps "
    "grad_accum grad_accum_steps gradient_accumulation gradient_accumulation_steps "
    "accumulate_grad_batches num_accum ga_steps gas",
    "train.lr": "learning_rate base_lr max_lr init_lr initial_lr peak_lr",
    "train.schedule": "lr_schedule lr_scheduler lr_scheduler_type scheduler scheduler_type "
    "scheduler_name lr_decay lr_policy schedule_type",
    "train.warmup": "warmup_ratio warmup_fraction warmup_proportion warmup_pct pct_start",
    "train.weight_decay": "wd l2 decay",
    "train.clip": "grad_clip grad_clip_norm gradient_clip gradient_clip_val gradient_clipping "
    "clip_grad clip_grad_norm clip_norm max_grad_norm max_norm",
    "train.seed": "random_seed rng_seed manual_seed random_state",
    "train.shuffle": "shuffle_train",
    "train.grad_cache": "gradcache use_grad_cache gradient_caching",
    "train.init": "init_from pretrained pretrained_path init_checkpoint init_weights",
    "device.name": "accelerator device_type",
    "device.threads": "num_threads n_threads torch_threads omp_threads omp_num_threads "
    "mkl_num_threads cpu_threads",
    "device.precision": "amp use_amp fp16 use_fp16 half bf16 use_bf16 mixed_precision "
    "amp_dtype dtype torch_dtype autocast",
    "evaluate.every": "eval_every eval_interval eval_steps eval_freq validate_every val_interval "
    "val_every evaluation_steps",
    "evaluate.k": "ks recall_k recall_ks recall_at eval_k eval_ks",
    "evaluate.metric": "best_metric monitor monitor_metric metric_for_best_model target_metric",
    "evaluate.patience": "early_stopping early_stopping_patience early_stop early_stop_patience",
    "evaluate.keep_best": "load_best_model_at_end save_best restore_best save_best_only",
    "checkpoint.every_steps": "save_every save_steps save_interval checkpoint_every "
    "checkpoint_steps checkpoint_interval ckpt_every save_freq",
    "checkpoint.keep": "save_total_limit keep_last keep_checkpoints max_checkpoints",
    "memory.budget": "memory_budget memory_budget_mb",
    "memory.limit": "memory_limit max_memory max_memory_gb max_memory_mb",
    "supervise.max_restarts": "max_retries retries num_restarts",
}

_WORKERS: Final = (
    "there are no DataLoader workers: rows are mapped from the files, and a thread gathers them"
)
_CACHES: Final = (
    "there is no cache of vectors to size: the files are mapped, and the system's "
    "page cache keeps what is used; memory.budget bounds mining and evaluation"
)
_SYNC: Final = (
    "there is no cache of vectors to synchronise; when a run waits for its device is the option "
    "sync of the device: ttf config explain sync"
)
_EMPTY_CACHE: Final = (
    "when the cache of the device is emptied is the option empty_cache of the device: "
    "ttf config explain empty_cache"
)
_OUTPUT: Final = "the folder of a run is no setting: ttf train --out DIR"
_LOGGING: Final = "each step is recorded in metrics.jsonl of the run"
_WIDTH: Final = "widths and lengths of vectors come from the data"

# Names without a counterpart that a run does not need.
_NEEDLESS: Final[Mapping[str, str]] = {
    **_each(
        "num_workers n_workers workers dataloader_workers dataloader_num_workers pin_memory "
        "prefetch prefetch_factor persistent_workers",
        _WORKERS,
    ),
    **_each(
        "l1_mb l2_mb l1_cache_mb l2_cache_mb l1_size_mb l2_size_mb l1_cache_size l2_cache_size "
        "cache_mb cache_size cache_size_mb chunk chunk_size mmap use_mmap",
        _CACHES,
    ),
    **_each(
        "auto_sync sync_every sync_interval sync_steps sync_every_n_batches sync_every_n_steps "
        "synchronize synchronize_every mps_sync mps_synchronize",
        _SYNC,
    ),
    **_each(
        "empty_cache_every empty_cache_steps empty_cache_interval clear_cache clear_cache_every "
        "clear_cache_steps mps_empty_cache torch_empty_cache_steps",
        _EMPTY_CACHE,
    ),
    **_each(
        "output_dir out_dir save_dir log_dir checkpoint_dir ckpt_dir run_name run_dir "
        "experiment_name exp_name",
        _OUTPUT,
    ),
    **_each("log_every log_interval logging_steps log_freq verbose", _LOGGING),
    **_each(
        "input_dim embed_dim embedding_dim emb_dim output_dim out_dim vector_dim seq_len "
        "sequence_length max_len max_length max_seq_length",
        _WIDTH,
    ),
    "drop_last": "what is left over of an epoch differs each epoch, so that no row is always left out",
    "kmp_duplicate_lib_ok": (
        "KMP_DUPLICATE_LIB_OK only hides that two OpenMP runtimes are loaded, and results may then "
        "be wrong; the miner has its own process instead (miner.isolation)"
    ),
}

# Names without a counterpart that would change what a run computes.
_WITHOUT: Final[Mapping[str, str]] = {
    **_each(
        "optimizer optim optimizer_type optimizer_name optim_type optim_name", "it is always AdamW"
    ),
    **_each(
        "beta1 beta2 betas adam_beta1 adam_beta2 eps epsilon adam_epsilon momentum",
        "AdamW has its usual betas and epsilon; they cannot be set",
    ),
    **_each(
        "warmup_steps num_warmup_steps warmup_epochs warmup_iters",
        "train.warmup is a share of all steps: divide the warm-up by all steps",
    ),
    **_each("loss_type loss_fn loss_name criterion", "the loss is always InfoNCE ([loss])"),
    **_each("min_lr eta_min lr_min", "train.schedule falls to its own end, which cannot be set"),
    **_each(
        "margin hard_negative_margin",
        "the filter of mined negatives has negatives.relative_margin (a share of the positive's "
        "score) and negatives.absolute_margin",
    ),
    **_each(
        "resume resume_from resume_from_checkpoint resume_path",
        "to continue a run: ttf resume DIR; for initial weights only: train.init",
    ),
    **_each(
        "effective_batch effective_batch_size global_batch_size total_batch_size",
        "the samples of a step are train.batch_size x train.accumulate",
    ),
    **_each(
        "gradient_checkpointing activation_checkpointing",
        "train.grad_cache encodes a large batch in chunks, each twice",
    ),
    **_each(
        "use_memory_bank use_bank use_queue",
        "loss.memory_bank is a number of documents; 0: no memory bank",
    ),
    **_each(
        "use_hard_negatives mine_hard_negatives",
        "miner.negatives is a number of documents per query; 0: no mining",
    ),
    **_each(
        "tensorboard use_tensorboard wandb use_wandb report_to",
        "observers is a list of plugins, such as ['tensorboard']",
    ),
}

MEANINGS: Final[Mapping[str, Meaning]] = {
    **{name: Meaning(key=key) for key, names in _KEYS.items() for name in names.split()},
    **{name: Meaning(reason=reason, needless=True) for name, reason in _NEEDLESS.items()},
    **{name: Meaning(reason=reason) for name, reason in _WITHOUT.items()},
}

# A section that others give as one word, `device: cuda`, has it under this key.
NAME_OF_SECTION: Final[Mapping[str, str]] = {
    "device": "device.name",
    "miner": "miner.name",
    "tower": "tower.query.name",
    "model": "tower.query.name",
}

_DOCUMENTS: Final = ("doc", "item", "candidate", "passage")

# Words of others for the values of a key.
_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "train.schedule": {
        **_each(
            "cosine_annealing cosineannealing cosineannealinglr cosine_warmup cosine_with_warmup "
            "warmup_cosine cosine_decay",
            "cosine",
        ),
        **_each("linear_warmup linear_with_warmup warmup_linear linear_decay linearlr", "linear"),
        **_each("const none constant_with_warmup constantlr fixed", "constant"),
    },
    "device.precision": {
        **_each("bfloat16 bf16_mixed torch.bfloat16", "bf16"),
        **_each("32 float32 float no torch.float32", "fp32"),
    },
    "tower.query.name": {"bigru": "gru", "bilstm": "lstm", "none": "identity"},
    "miner.name": {
        **_each("hnsw", "hnswlib"),
        **_each("brute brute_force bruteforce flat", "exact"),
    },
    "loss.similarity": _each("dot_product ip inner_product", "dot"),
}

_NO_FP16: Final = (
    "float16 is not offered, because gradients overflow in it without loss scaling: "
    "device.precision = 'bf16' has the range of fp32"
)


# Values of settings without a counterpart that are what happens here anyway.
SAME_HERE: Final = frozenset(("adamw", "infonce", "info_nce", "nt_xent", "contrastive"))


class Untranslatable(ValueError):
    """A value that the key does not take, with the reason."""


def words(name: str) -> str:
    """The name in lower case, with `_` between its words.

    >>> words("--accum-steps"), words("accumSteps"), words("OMP_NUM_THREADS")
    ('accum_steps', 'accum_steps', 'omp_num_threads')
    """
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:100].lstrip("-"))
    return split.replace("-", "_").replace(" ", "_").lower()


def meaning(path: tuple[str, ...]) -> Meaning | None:
    """Of a foreign key: its section may be part of its name (`memory_bank: {size: 50000}`)."""
    if len(path) == 1 and path[0] in NAME_OF_SECTION:
        return Meaning(key=NAME_OF_SECTION[path[0]])
    for name in _names(path):
        if name in MEANINGS:
            found = MEANINGS[name]
            return replace(found, key=beside(found.key, path))
    return None


def beside(key: str, path: tuple[str, ...]) -> str:
    """`tower.doc.hidden` for the width of a document tower, where `key` is `tower.query.hidden`."""
    of_documents = any(words(part).startswith(_DOCUMENTS) for part in path[:-1])
    of_documents |= path[:2] == ("tower", "doc")
    return key.replace("tower.query.", "tower.doc.") if of_documents else key


def _names(path: tuple[str, ...]) -> Iterator[str]:
    if len(path) > 1:
        yield words("_".join(path[-2:]))
    if path:
        yield words(path[-1])


def value_here(name: str, key: str, value: Any) -> Any:
    """The value of the foreign setting `name` as `key` takes it. Raises Untranslatable."""
    name = words(name)
    if key == "device.precision":
        return _precision(name, value)
    if isinstance(value, bool) and key in ("miner.negatives", "loss.memory_bank"):
        if value:
            raise Untranslatable(f"{key} is a number of documents")
        return 0
    sizes = key in ("memory.budget", "memory.limit") and isinstance(value, int | float)
    if sizes and name.endswith(("_mb", "_gb")):
        return f"{value}{'MiB' if name.endswith('_mb') else 'GiB'}"
    if isinstance(value, str):
        return _VALUES.get(key, {}).get(words(value), value)
    return value


def _precision(name: str, value: Any) -> Any:
    text = words(str(value))
    bare = name.removeprefix("use_")
    if bare in ("fp16", "half") and value is True:
        raise Untranslatable(_NO_FP16)
    if text in ("fp16", "float16", "half", "16", "16_mixed", "torch.float16"):
        raise Untranslatable(_NO_FP16)
    if isinstance(value, bool):
        return "bf16" if value else "fp32"
    return _VALUES["device.precision"].get(text, value)
