"""plan_batches: gradients of planned steps are those of the whole batch, or the loss is refused by name."""

import numpy
import pytest
import torch
import transformers
import trl
from batchplan import Pass
from batchplan.integrations.transformers import plan_batches
from datasets import Dataset
from planned_training import arguments
from tiny_llama import VOCABULARY, tiny_llama, tokenizer
from torch.nn import functional

# One global batch, in micro-batches of 13, 4, 13 and 2 sequences.
RANDOM = numpy.random.default_rng(0)
ROWS = [RANDOM.integers(0, VOCABULARY - 1, length).tolist() for length in RANDOM.lognormal(3, 0.8, 32).clip(3, 120).astype(int)]
CLASSES = RANDOM.integers(0, 3, 32).tolist()
STEP = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "num_train_epochs": 1, "max_grad_norm": 0.0}
BUDGET = 1024


def headed(head=transformers.LlamaForSequenceClassification, **config):
    torch.manual_seed(0)
    config = {**tiny_llama().config.to_dict(), "pad_token_id": VOCABULARY - 1, **config}
    return head(transformers.LlamaConfig(**config)).double()


def gradient(model):
    zeros = (torch.zeros_like(one) if one.grad is None else one.grad for one in model.parameters())
    return torch.cat([one.flatten() for one in zeros])


class Kept:
    """A trainer that keeps the gradient of its last step, and the sequences of its micro-batches."""

    def training_step(self, model, inputs, *others, **named):
        self.counts = [*getattr(self, "counts", []), len(next(iter(inputs.values())))]
        loss = super().training_step(model, inputs, *others, **named)
        self.gradient = gradient(self.model)
        return loss


class KeptTrainer(Kept, transformers.Trainer):
    pass


def trainer_of(kind=KeptTrainer, model=None, labels=CLASSES, rows=ROWS, step=STEP, **other):
    return kind(
        model or headed(num_labels=3), arguments("unused", **step),
        train_dataset=Dataset.from_dict({"input_ids": rows, "labels": labels}),
        data_collator=transformers.DataCollatorWithPadding(tokenizer()), **other)


def trained(trainer, **options):
    plan_batches(trainer, **{"max_tokens": BUDGET, **options})
    trainer.train()
    return trainer


def assert_right(trainer, loss_of_row):
    """As of the sequences one by one, each as much."""
    model = trainer.model
    model.zero_grad()
    for row in range(32):
        (loss_of_row(model, row) / 32).backward()
    torch.testing.assert_close(trainer.gradient, gradient(model), rtol=1e-6, atol=1e-9)


def class_loss(model, row):
    return functional.cross_entropy(model(input_ids=torch.tensor([ROWS[row]])).logits, torch.tensor([CLASSES[row]]))


def divided(outputs, labels, num_items_in_batch=None):
    return functional.cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch


@pytest.mark.parametrize("head", ["LlamaForSequenceClassification", "LlamaForTokenClassification", "BertForMaskedLM",
                                  "BertForSequenceClassification"])
def test_heads_that_drop_the_number_of_items_are_refused_by_name(head):
    if head.startswith("Bert"):
        config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
        model = getattr(transformers, head)(config)
    else:
        model = headed(getattr(transformers, head))
    with pytest.raises(ValueError, match=f"the loss of {head} is the mean of a micro-batch.*"
                                         r"compute_loss_func that divides by num_items_in_batch, or .*equal_counts=True"):
        plan_batches(trainer_of(model=model), max_tokens=BUDGET)


def test_a_classifiers_gradient_is_right_with_a_function_that_divides():
    trainer = trained(trainer_of(compute_loss_func=divided))
    assert len(set(trainer.counts)) > 1
    assert_right(trainer, class_loss)


def test_a_regressions_gradient_is_right_with_a_function_that_divides():
    targets = RANDOM.normal(size=32).tolist()

    def summed(outputs, labels, num_items_in_batch=None):
        return functional.mse_loss(outputs.logits.squeeze(-1), labels.double(), reduction="sum") / num_items_in_batch

    trainer = trained(trainer_of(model=headed(num_labels=1), labels=targets, compute_loss_func=summed))
    assert len(set(trainer.counts)) > 1

    def loss(model, row):
        label = torch.tensor([targets[row]], dtype=torch.float32).double()
        return functional.mse_loss(model(input_ids=torch.tensor([ROWS[row]])).logits.squeeze(-1), label)

    assert_right(trainer, loss)


@pytest.mark.parametrize("options", [
    {"equal_counts": True}, {"equal_counts": True, "padded": False},
    {"max_tokens": None, "passes": [Pass(BUDGET, max_sequences=8, scan="optimal")]}])
@pytest.mark.parametrize("compute_loss_func", [None, divided])
def test_a_classifiers_gradient_is_right_with_equal_counts(options, compute_loss_func):
    trainer = trained(trainer_of(compute_loss_func=compute_loss_func), **options)
    assert trainer.counts == [8] * 4
    assert_right(trainer, class_loss)


def test_equal_counts_need_whole_global_batches():
    rows = {"rows": ROWS + ROWS[:5], "labels": CLASSES + CLASSES[:5]}
    with pytest.raises(ValueError, match="37 entries, no multiple of the 32 of a global batch: set dataloader_drop_last"):
        trained(trainer_of(**rows), equal_counts=True)
    # Nor are they equal because no micro-batch has more.
    with pytest.raises(ValueError, match="the loss of LlamaForSequenceClassification is the mean of a micro-batch"):
        trained(trainer_of(**rows), max_tokens=None, passes=[Pass(BUDGET, max_sequences=8)])
    trainer = trained(trainer_of(**rows, step=STEP | {"dataloader_drop_last": True}), equal_counts=True)
    assert trainer.counts == [8] * 4


class MeanTrainer(Kept, transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        return functional.cross_entropy(model(**inputs).logits, labels)


class MeanOfOthersTrainer(Kept, transformers.Trainer):
    """Takes what there is, and hands it to nobody."""

    def compute_loss(self, model, inputs, return_outputs=False, **others):
        assert "num_items_in_batch" in others
        labels = inputs.pop("labels")
        return functional.cross_entropy(model(**inputs).logits, labels)


class DividingTrainer(Kept, transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        return divided(model(**inputs), labels, num_items_in_batch.item())


class PassingTrainer(Kept, transformers.Trainer):
    def compute_loss(self, model, inputs, *others, **named):
        self.losses = getattr(self, "losses", 0) + 1
        return super().compute_loss(model, inputs, *others, **named)


def test_a_loss_of_the_trainers_own_is_refused_where_it_is_not_divided():
    with pytest.raises(ValueError, match="MeanTrainer.compute_loss does not use num_items_in_batch"):
        plan_batches(trainer_of(MeanTrainer), max_tokens=BUDGET)
    halved = "is [0-9.]+ of a micro-batch and [0-9.]+ with twice its num_items_in_batch, which must halve it"
    with pytest.raises(ValueError, match=f"MeanOfOthersTrainer {halved}"):
        trained(trainer_of(MeanOfOthersTrainer))
    # A head below it that drops the number.
    with pytest.raises(ValueError, match=f"PassingTrainer {halved}"):
        trained(trainer_of(PassingTrainer))
    with pytest.raises(ValueError, match=f"KeptTrainer {halved}"):
        trained(trainer_of(compute_loss_func=lambda outputs, labels, num_items_in_batch=None: outputs.logits.mean()))
    for trainer in (trainer_of(DividingTrainer), trainer_of(PassingTrainer, compute_loss_func=divided)):
        assert_right(trained(trainer), class_loss)
    assert trainer.losses == 4 + 2 and "compute_loss" not in vars(trainer)
    assert_right(trained(trainer_of(MeanTrainer), equal_counts=True), class_loss)


def test_smoothed_labels_are_divided_where_transformers_can():
    trainer = trained(trainer_of(step=STEP | {"label_smoothing_factor": 0.1}))
    assert len(set(trainer.counts)) > 1

    def loss(model, row):
        label, logits = torch.tensor([CLASSES[row]]), model(input_ids=torch.tensor([ROWS[row]])).logits
        return functional.cross_entropy(logits, label, label_smoothing=0.1)

    assert_right(trainer, loss)
    older = trainer_of(step=STEP | {"label_smoothing_factor": 0.1})
    older.label_smoother = lambda outputs, labels, shift_labels=False: outputs.logits.mean()
    with pytest.raises(ValueError, match="label_smoothing_factor is 0.1: .*before 5.15: set it to 0"):
        plan_batches(older, max_tokens=BUDGET)


def test_one_micro_batch_a_step_is_weighted_as_it_is():
    step = STEP | {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1}
    assert_right(trained(trainer_of(step=step), max_tokens=32 * 120), class_loss)


class KeptRewardTrainer(Kept, trl.RewardTrainer):
    pass


class KeptDPOTrainer(Kept, trl.DPOTrainer):
    pass


def preferences(kind, config, model, **other):
    prompts, answers = [row[:2] for row in ROWS], [row[2:] for row in ROWS]
    words = [[" ".join(f"w{token}" for token in one) for one in rows] for rows in (prompts, answers, answers[::-1])]
    dataset = Dataset.from_dict(dict(zip(("prompt", "chosen", "rejected"), words)))
    return kind(model, args=arguments("unused", config, **STEP, max_length=None, bf16=False),
                train_dataset=dataset, processing_class=tokenizer(), **other)


@pytest.mark.parametrize("kind", ["RewardTrainer", "DPOTrainer"])
def test_losses_over_pairs_are_right_with_equal_counts_as_is_advised(kind):
    lengths = [len(one) + len(other) for one, other in zip(ROWS, ROWS[::-1])]

    def trainer(**step):
        if kind == "RewardTrainer":
            return preferences(KeptRewardTrainer, trl.RewardConfig, headed(num_labels=1), **step)
        return preferences(KeptDPOTrainer, trl.DPOConfig, tiny_llama().double(), ref_model=tiny_llama().double(), **step)

    with pytest.raises(ValueError, match=f"loss_is_scaled_for_ga of Kept{kind} is False.*equal_counts=True") as refused:
        plan_batches(trainer(), max_tokens=2 * BUDGET, lengths=lengths)
    assert "give the trainer a compute_loss_func" not in str(refused.value)
    planned = trained(trainer(), max_tokens=2 * BUDGET, lengths=lengths, equal_counts=True)
    # That of the trainer's own batches, which are equal too.
    stock = trainer()
    stock.train()
    assert len(set(planned.counts)) == 1
    torch.testing.assert_close(planned.gradient, stock.gradient, rtol=1e-5, atol=1e-7)


class OwnBatches(transformers.Trainer):
    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset, 8, collate_fn=self.data_collator)


def test_trainers_whose_batches_are_their_own_say_so(monkeypatch):
    with pytest.raises(ValueError, match="OwnBatches.get_train_.* draws batches of its own.* can't be planned"):
        plan_batches(OwnBatches, max_tokens=BUDGET)
    for name in ("_get_train_sampler", "get_train_dataloader", "train"):
        # Put back afterwards.
        monkeypatch.setattr(transformers.Trainer, name, vars(transformers.Trainer)[name])
    for _ in range(2):
        plan_batches(transformers.Trainer, max_tokens=BUDGET)
    with pytest.raises(ValueError, match="the training batches of OwnBatches are its own, and not planned"):
        trainer_of(OwnBatches, compute_loss_func=divided).train()
    planned = trainer_of(compute_loss_func=divided)
    planned.train()
    assert len(set(planned.counts)) > 1
