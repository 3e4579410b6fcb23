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
            logits = model(**packed.transformers()).logits[0]
        for begin, index, length in zip(microbatch.cu_seqlens_padded, microbatch.indices, microbatch.lengths):
            losses = token_losses(logits[begin : begin + length], sequences[index])
            torch.testing.assert_close(losses, alone[index], rtol=0, atol=1e-6)
            seen.append(int(index))
    assert sorted(seen) == list(range(len(lengths)))


def test_a_batch_without_input_ids_is_named():
    (microbatch,) = batchplan.plan([3], max_tokens=4).rank(0)
    with pytest.raises(ValueError, match="the fields are ids; input_ids must be among them"):
        PackedBatch(microbatch, {"ids": [torch.arange(3)]}).transformers()


def test_a_trainers_batches_are_planned_by_costs_that_were_measured_before(tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening())
    model = trainer.model

    def step(packed):
        model(**packed.transformers()).logits.logsumexp(-1).mean().backward()

    cost = calibrate(step, BUDGET, vocabulary=VOCABULARY, device="cpu", shortest=3, longest=120, repeats=1).cost
    model.zero_grad()
    plan_batches(trainer, max_tokens=BUDGET, cost=cost)
    plan, batch = trainer._get_train_sampler().batches.plan(0, 0)
    of_step = cost.of_sequences(numpy.array([len(SEQUENCES[place]) for place in batch])).sum() + plan.metrics.microbatches * cost.per_microbatch
    assert plan.metrics.predicted_step_time == pytest.approx(of_step, rel=1e-6)
    monkeypatch.setenv("BATCHPLAN_COST", ",".join(map(str, cost.to_dict().values())))
    assert _settings.cost() == cost
