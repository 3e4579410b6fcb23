"""TRL's GRPOTrainer and RLOOTrainer on planned generation batches: the gradients of stock, sequence by sequence."""

import datasets
import numpy
import pytest
import torch
import transformers
import trl
import two_processes
from batchplan import CostModel, Pass
from batchplan.integrations._grpo import _checks
from batchplan.integrations._grpo._rows import Rows
from batchplan.integrations.transformers import plan_batches
from generated_training import ALONE, CASES, PACKED, PADDED, compared, trainer_of
from tiny_llama import tiny_llama

# Of float32, in which TRL computes log-probabilities.
CLOSE = 1e-5


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Of both ranks what generated_training.py writes."""
    return two_processes.run("generated_training.py", tmp_path_factory.mktemp("generated"))


def check(results, plan):
    """Of all ranks."""
    budget = plan["max_tokens"]
    stock, planned = ([sorted(map(str, _flat(one["rows"][which]))) for one in results] for which in (0, 1))
    assert sorted(sum(stock, [])) == sorted(sum(planned, []))
    for one in results:
        assert one["difference"] < CLOSE
        assert one["losses"][1] == pytest.approx(one["losses"][0], abs=1e-4)
        assert one["logged"][1] == one["logged"][0]
        for rows in one["rows"][1]:
            tokens = [len(row) for row in rows]
            laid = sum(tokens) if "padded" in plan else max(tokens) * len(tokens)
            assert laid <= budget or len(rows) == 1
    # As many at each time.
    assert len({len(one["rows"][1]) for one in results}) == 1


def _flat(microbatches):
    return [row for rows in microbatches for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_have_stocks_gradients_of_every_sequence_within_the_budget(ranks, name):
    check([one[name] for one in ranks], CASES[name][0])


def test_sequences_go_to_the_rank_that_evens_out(ranks):
    def costs(which):
        """Of each rank its micro-batches."""
        return [[sum(map(len, rows)) for rows in one["bnpo"]["rows"][which]] for one in ranks]

    def lockstep(which):
        return sum(map(max, zip(*costs(which)))) / (sum(map(sum, costs(which))) / 2)

    assert lockstep(1) < 1.1 < lockstep(0)


@pytest.mark.parametrize("name", ALONE)
def test_one_rank_has_stocks_gradients(tmp_path, name):
    plan, other = ALONE[name]
    check([compared(tmp_path, plan, **other)], plan)


def test_all_trainers_of_a_class(tmp_path, monkeypatch):
    monkeypatch.setattr(trl.GRPOTrainer, "train", trl.GRPOTrainer.train)
    plan_batches(trl.GRPOTrainer, **PADDED)
    plan_batches(trl.GRPOTrainer, max_tokens=100, padded=False)
    trainer = trainer_of(tmp_path)
    trainer.train()
    # By the plan that was asked for last.
    for batch in _flat(trainer._buffered_inputs):
        tokens = int(batch["prompt_mask"].sum() + batch["completion_mask"].sum())
        assert tokens <= 100 or len(batch["prompt_ids"]) == 1


def test_a_second_plan_takes_the_place_of_the_first(tmp_path):
    trainer = trainer_of(tmp_path)
    plan_batches(trainer, max_tokens=100)
    plan_batches(trainer, max_tokens=500)
    trainer.train()
    assert len(trainer._buffered_inputs) == 2 and len(trainer._buffered_inputs[0]) < 4


def test_evaluation_is_as_without_a_plan(tmp_path):
    logs = []
    for plan in (None, PACKED):
        data = datasets.Dataset.from_dict({"prompt": ["w1 w2", "w3"] * 4})
        trainer = trainer_of(tmp_path, per_device_eval_batch_size=4, num_generations_eval=2)
        if plan:
            plan_batches(trainer, **plan)
        logs.append(trainer.evaluate(data))
    for name in ("eval_loss", "eval_kl", "eval_entropy"):
        assert logs[1][name] == pytest.approx(logs[0][name], abs=1e-6)


def test_a_training_goes_on_from_a_checkpoint(tmp_path):
    weights = []
    for how in ({}, {"resume_from_checkpoint": str(tmp_path / "checkpoint-2")}):
        trainer = trainer_of(tmp_path, max_steps=4, save_strategy="steps", save_steps=2)
        plan_batches(trainer, **PACKED)
        trainer.train(**how)
        weights.append(float(sum(one.detach().abs().sum() for one in trainer.model.parameters())))
    assert weights[0] == pytest.approx(weights[1], rel=1e-6)


def test_models_that_keep_packed_sequences_apart_cheaply_get_them_without_padding(tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path)
    assert _checks.check_model(trainer, None) == (True, False)
    monkeypatch.setattr(trainer.model.config, "_attn_implementation_internal", "flash_attention_2")
    monkeypatch.setattr(_checks, "needs_seq_idx", lambda model, device: False)
    assert _checks.check_model(trainer, None) == (False, False)

    def mixes(model, device):
        raise ValueError("it lets packed sequences see each other")

    monkeypatch.setattr(_checks, "needs_seq_idx", mixes)
    assert _checks.check_model(trainer, None) == (True, False)
    with pytest.raises(ValueError, match="see each other"):
        _checks.check_model(trainer, False)


def test_what_was_asked_for_one_trainer_stays_when_its_class_is_planned(tmp_path, monkeypatch):
    monkeypatch.setattr(trl.GRPOTrainer, "train", trl.GRPOTrainer.train)
    trainer = trainer_of(tmp_path, max_steps=1)
    plan_batches(trainer, max_tokens=60)
    plan_batches(trl.GRPOTrainer, max_tokens=500)
    trainer.train()
    rows = [batch["prompt_mask"].sum() + batch["completion_mask"].sum() for batch in _flat(trainer._buffered_inputs)]
    assert max(rows) < 130 and len(rows) > 2


@pytest.mark.parametrize(("stateful", "attention", "padded"), [
    (False, "flash_attention_2", False), (True, "flash_attention_2", True), (False, "sdpa", True),
])  # fmt: skip
def test_models_that_can_not_be_tried_yet_are_taken_at_their_word(tmp_path, monkeypatch, stateful, attention, padded):
    trainer = trainer_of(tmp_path)
    monkeypatch.setattr(trainer.model.config, "_attn_implementation_internal", attention)
    monkeypatch.setattr(trainer, "is_fsdp_enabled", True)
    monkeypatch.setattr(trainer.model, "_is_stateful", stateful)
    assert _checks.check_model(trainer, None) == (padded, False)
    if stateful:
        with pytest.raises(ValueError, match="padded is False, and LlamaForCausalLM has a state"):
            _checks.check_model(trainer, False)
    monkeypatch.setattr(trainer, "is_fsdp_enabled", False)

    def does_not_run(model, device):
        raise RuntimeError("the model is elsewhere")

    monkeypatch.setattr(_checks, "needs_seq_idx", does_not_run)
    assert _checks.check_model(trainer, None) == (padded, False)


def test_passes_may_say_more_of_both_uses(tmp_path):
    trainer = trainer_of(tmp_path)
    plan_batches(trainer, passes=[Pass(300, scan="optimal"), Pass(600)], cost=CostModel(1, 0.01), effort="fast")
    trainer.train()


def test_rows_keep_their_values_in_another_order_and_width():
    def batch(prompts, completions):
        """Tokens of rows, whose fields are numbered through."""
        rows, widths = len(prompts), (max(prompts), max(completions))
        masks = [torch.arange(widths[0]) >= torch.tensor([[widths[0] - one] for one in prompts]),
                 torch.arange(widths[1]) < torch.tensor([[one] for one in completions])]
        tokens = torch.arange(rows * widths[1], dtype=torch.float32).reshape(rows, -1)
        return {
            "prompt_ids": torch.arange(rows * widths[0]).reshape(rows, -1), "prompt_mask": masks[0].long(),
            "completion_ids": tokens.long(), "completion_mask": masks[1].long(), "advantages": torch.rand(rows),
            "importance_sampling_ratio": tokens + 2, "old_per_token_logps": -tokens, "tool_mask": None,
            "num_items_in_batch": torch.tensor(9),
        }  # fmt: skip

    def of_rows(batch):
        kinds = {"prompt_ids": "prompt_mask", "advantages": None}
        names = [name for name in sorted(batch) if "mask" not in name and name != "num_items_in_batch"]
        masks = [kinds.get(name, "completion_mask") for name in names]
        return [
            [batch[name][row][batch[mask][row].bool()].tolist() if mask else float(batch[name][row])
             for name, mask in zip(names, masks)]
            for row in range(len(batch["prompt_ids"]))
        ]

    one, other = batch([3, 1, 2], [4, 6, 0]), batch([2, 5], [1, 3])
    rows = Rows.of([one, other])
    order = numpy.array([4, 2, 3, 0])
    found = rows.take(order).batch()
    all_rows = of_rows(one) + of_rows(other)
    assert of_rows(found) == [all_rows[place] for place in order]
    assert found["prompt_ids"].shape == (4, 5) and found["completion_ids"].shape == (4, 4)
    # VESPO's loss adds up logarithms of what is not masked.
    ratios = found["importance_sampling_ratio"]
    assert (ratios[~found["completion_mask"].bool()] == 1).all()
    assert found["num_items_in_batch"] == 9 and "tool_mask" not in found


def test_ratios_of_rows_are_told_from_those_of_tokens_by_their_name():
    batch = {f"{kind}_{what}": torch.ones(2, 1, dtype=torch.long)
             for kind in ("prompt", "completion") for what in ("ids", "mask")}
    batch["importance_sampling_ratio"] = torch.tensor([[3.0], [5.0]])
    assert list(Rows.of([batch]).of_completions) == ["completion_ids", "importance_sampling_ratio"]
    found = Rows.of([batch], ratios_of_rows=True).batch()
    assert found["importance_sampling_ratio"].tolist() == [[3], [5]]


@pytest.mark.parametrize(("message", "change"), [
    ("has pixel_values, a tensor .2, 3., which a plan can't divide", {"pixel_values": torch.ones(2, 3)}),
    ("has notes, a list", {"notes": ["a", "b"]}),
    ("at least one has gaps", {"completion_mask": torch.tensor([[0, 1], [1, 1]])}),
    ("prompt 1 of the generation batch has no tokens", {"prompt_mask": torch.tensor([[0, 1], [0, 0]])}),
])  # fmt: skip
def test_rows_that_are_not_understood_are_refused(message, change):
    batch = {f"{kind}_{what}": torch.ones(2, 2, dtype=torch.long)
             for kind in ("prompt", "completion") for what in ("ids", "mask")}
    with pytest.raises(ValueError, match=message):
        Rows.of([{**batch, **change}])


@pytest.mark.parametrize(("message", "plan", "other"), [
    ("lengths is given; CannedGRPOTrainer generates", {"lengths": [1]}, {}),
    ("equal_counts is given", {"equal_counts": True}, {}),
    ("dp is given", {"dp": 2}, {}),
    ("seed is given; of a generation batch only max_tokens", {"seed": 1}, {}),
    ("max_tokens is 5; must be at least pad_to_multiple_of 8", {"max_tokens": 5}, {"pad_to_multiple_of": 8}),
    (r"\(max_tokens\) is 0; must be at least 1", {"max_tokens": 0}, {}),
    ("passes.0..min_microbatches is 4; of a generation batch", {"passes": [Pass(300, min_microbatches=4)]}, {}),
    ("passes has 3 entries; must have one", {"passes": [Pass(300)] * 3}, {}),
    ("max_tokens", {"passes": None}, {}),
    ("top_entropy_quantile is 0.5; must be 1.0", {}, {"top_entropy_quantile": 0.5}),
    ("entropy_coef or use_adaptive_entropy is set", {}, {"entropy_coef": 0.1}),
])  # fmt: skip
def test_what_is_not_kept_is_refused_by_name(tmp_path, message, plan, other):
    with pytest.raises(ValueError, match=message):
        budget = {} if "passes" in plan else {"max_tokens": 300}
        plan_batches(trainer_of(tmp_path, **other), **{**budget, **plan})


def test_losses_and_trainers_that_are_not_known_are_refused(tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.loss_type = "tomorrow"
    with pytest.raises(ValueError, match='loss_type is "tomorrow"; must be one of grpo, '):
        plan_batches(trainer, max_tokens=300)

    class Own(trl.GRPOTrainer):
        def _compute_loss(self, model, inputs):
            return super()._compute_loss(model, inputs)

    with pytest.raises(ValueError, match="Own._compute_loss is the trainer's own"):
        plan_batches(trainer_of(tmp_path, kind=Own), max_tokens=300)


def test_images_are_refused(tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.train_dataset = trainer.train_dataset.add_column("image", [None] * 64)
    with pytest.raises(ValueError, match="train_dataset has image; only sequences of tokens"):
        plan_batches(trainer, max_tokens=300)


def test_a_plan_of_all_trainers_does_not_pass_over_these_in_silence(tmp_path, monkeypatch):
    for name in ("_get_train_sampler", "get_train_dataloader", "train"):
        monkeypatch.setattr(transformers.Trainer, name, vars(transformers.Trainer)[name])
    plan_batches(transformers.Trainer, max_tokens=300)
    with pytest.raises(ValueError, match="plan_batches.CannedGRPOTrainer"):
        trainer_of(tmp_path).train()
    trainer = trainer_of(tmp_path, model=tiny_llama())
    plan_batches(trainer, max_tokens=300)
    trainer.train()
