"""Packed micro-batches in a model of transformers, and what they cost it."""

import batchplan
import numpy
import pytest
import torch
import transformers
from batchplan.integrations.transformers import plan_batches
from batchplan.integrations.verl import _settings
from batchplan.torch import PackedBatch, calibrate
from planned_training import BUDGET, trainer_of
from reference_kernels import convolved
from tiny_llama import SEQUENCES, VOCABULARY, losses_alone, tiny_llama, token_losses


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("length_multiple", [1, 8])
def test_each_token_of_a_packed_row_has_the_loss_that_it_has_alone(attention, length_multiple):
    model = tiny_llama(attention)
    lengths = [5, 40, 17, 2, 33, 60, 1, 9]
    sequences = [torch.randint(0, VOCABULARY, (length,)) for length in lengths]
    alone = losses_alone(model, sequences)
    plan = batchplan.plan(lengths, passes=[batchplan.Pass(128, length_multiple=length_multiple)])
    seen = []
    for microbatch in plan.rank(0):
        packed = PackedBatch(microbatch, {"input_ids": sequences})
        with torch.no_grad():
            logits = model(**packed.transformers(model)).logits[0]
        for begin, index, length in zip(microbatch.cu_seqlens_padded, microbatch.indices, microbatch.lengths):
            losses = token_losses(logits[begin : begin + length], sequences[index])
            torch.testing.assert_close(losses, alone[index], rtol=0, atol=1e-6)
            seen.append(int(index))
    assert sorted(seen) == list(range(len(lengths)))


def test_a_batch_without_input_ids_is_named():
    (microbatch,) = batchplan.plan([3], max_tokens=4).rank(0)
    with pytest.raises(ValueError, match="the fields are ids; input_ids must be among them"):
        PackedBatch(microbatch, {"ids": [torch.arange(3)]}).transformers(tiny_llama())


SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0,
}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_chunk_size": 16}
MAMBA_2 = {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 8, "chunk_size": 16}
HYBRID = {"layer_types": ["mamba", "attention", "mamba"]}
KERNELS = "can't be given packed sequences: .*Install"
BLIND = "lets packed sequences see each other, with seq_idx as without"


def model_of(kind, **config):
    torch.manual_seed(0)
    configuration = getattr(transformers, f"{kind}Config")(**config)
    name = f"{kind}ForCausalLM"
    return getattr(transformers, name)(configuration).eval()


@pytest.mark.parametrize("kind, config, message", [
    ("Bamba", {**SHAPE, **MAMBA, "attn_layer_indices": [1]}, KERNELS),
    ("GraniteMoeHybrid", {**SHAPE, **MAMBA, **HYBRID, "num_local_experts": 2, "num_experts_per_tok": 1,
                          "shared_intermediate_size": 32}, KERNELS),
    ("NemotronH", {**SHAPE, "hybrid_override_pattern": "M*M", "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 1,
                   "ssm_state_size": 8, "head_dim": 8, "chunk_size": 16}, KERNELS),
    ("FalconH1", {**SHAPE, **MAMBA, "mamba_d_ssm": 64}, KERNELS),
    ("Lfm2", {**SHAPE, "layer_types": ["conv", "full_attention", "conv"]}, KERNELS),
    ("Mamba2", {**MAMBA_2, "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}, BLIND),
    ("Mamba", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}, BLIND),
    ("OPT", {"vocab_size": VOCABULARY, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 1,
             "num_attention_heads": 4, "word_embed_proj_dim": 32}, BLIND),
])
def test_models_that_do_not_keep_sequences_apart_here_are_refused_by_name(kind, config, message):
    (microbatch,) = batchplan.plan([5, 20, 17], max_tokens=64).rank(0)
    packed = PackedBatch(microbatch, {"input_ids": torch.randint(3, VOCABULARY, (3, 20))})
    with pytest.raises(ValueError, match=f"{kind}ForCausalLM {message}"):
        packed.transformers(model_of(kind, **config))


def test_with_kernels_a_hybrid_model_keeps_sequences_apart_by_seq_idx(monkeypatch):
    from transformers.models.lfm2 import modeling_lfm2

    model = model_of("Lfm2", **SHAPE, layer_types=["conv", "full_attention", "conv"])
    lengths = [5, 20, 17]
    sequences = [torch.randint(3, VOCABULARY, (length,)) for length in lengths]
    alone = losses_alone(model, sequences)
    monkeypatch.setattr(modeling_lfm2, "causal_conv1d_fn", convolved)
    (microbatch,) = batchplan.plan(lengths, passes=[batchplan.Pass(64, rows="capacity")]).rank(0)
    packed = PackedBatch(microbatch, {"input_ids": sequences})
    with torch.no_grad():
        logits = model(**packed.transformers(model)).logits[0]
    for begin, index, length in zip(microbatch.cu_seqlens_padded, microbatch.indices, microbatch.lengths):
        losses = token_losses(logits[begin : begin + length], sequences[index])
        torch.testing.assert_close(losses, alone[index], rtol=0, atol=1e-5)


def test_a_trainers_batches_are_planned_by_costs_that_were_measured_before(tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening())
    model = trainer.model

    def step(packed):
        model(**packed.transformers(model)).logits.logsumexp(-1).mean().backward()

    cost = calibrate(step, BUDGET, vocabulary=VOCABULARY, device="cpu", shortest=3, longest=120, repeats=1).cost
    model.zero_grad()
    plan_batches(trainer, max_tokens=BUDGET, cost=cost)
    plan, batch = trainer._get_train_sampler().batches.plan(0, 0)
    of_step = cost.of_sequences(numpy.array([len(SEQUENCES[place]) for place in batch])).sum() + plan.metrics.microbatches * cost.per_microbatch
    assert plan.metrics.predicted_step_time == pytest.approx(of_step, rel=1e-6)
    monkeypatch.setenv("BATCHPLAN_COST", ",".join(map(str, cost.to_dict().values())))
    assert _settings.cost() == cost
