"""plan_batches: what Trainer and SFTTrainer train on in two processes, and what they are refused."""

import batchplan
import numpy
import pytest
import torch
import transformers
import trl
import two_processes
from batchplan.integrations.transformers import plan_batches
from batchplan.torch import Mixture
from planned_training import BUDGET, SeenTrainer, arguments, before_5_17, dataset, interrupted, trainer_of
from reference_kernels import convolved
from tiny_llama import SEQUENCES, VOCABULARY, losses_alone, tiny_llama

STEPS, SLOTS = 4, 4


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two processes saw, by run."""
    return two_processes.run("planned_training.py", tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def alone():
    return losses_alone(tiny_llama().double(), [torch.tensor(one) for one in SEQUENCES])


def steps_of(ranks, run):
    """The micro-batches of each optimizer step, of all ranks."""
    of_ranks = [one[run]["microbatches"] for one in ranks]
    return [
        [microbatch for one in of_ranks for microbatch in one[begin : begin + SLOTS]]
        for begin in range(0, len(of_ranks[0]), SLOTS)
    ]


def sequences_of(step):
    return [number for microbatch in step for number in microbatch["sequences"]]


RUNS = ["flattened", "padded", "by_trl", "of_a_class", "older"]


@pytest.mark.parametrize("run", RUNS)
def test_each_sequence_comes_once_an_epoch(ranks, run):
    steps = steps_of(ranks, run)
    assert len(steps) == 2 * STEPS
    for epoch in (steps[:STEPS], steps[STEPS:]):
        assert sorted(number for step in epoch for number in sequences_of(step)) == list(range(len(SEQUENCES)))
    assert steps[0] != steps[STEPS]


@pytest.mark.parametrize("run", RUNS)
def test_an_optimizer_step_is_a_global_batch(ranks, run):
    # The last one has too few for a sequence a micro-batch, and shares with the one before.
    assert [len(sequences_of(step)) for step in steps_of(ranks, run)] == [32, 32, 18, 18] * 2
    for one in ranks:
        assert one[run]["steps"] == one[run]["max_steps"] == 2 * STEPS
        assert one[run]["rates"] == [0.0, 0.0]


@pytest.mark.parametrize("run, budget", [("flattened", BUDGET), ("padded", 2 * BUDGET), ("by_trl", BUDGET)])
def test_no_microbatch_is_over_the_budget(ranks, run, budget):
    tokens = [microbatch["tokens"] for step in steps_of(ranks, run) for microbatch in step]
    assert 0 < max(tokens) <= budget


@pytest.mark.parametrize("run", RUNS)
def test_the_loss_of_a_step_is_the_token_mean_of_sequences_alone(ranks, run, alone):
    for step in steps_of(ranks, run):
        losses = torch.cat([alone[number] for number in sequences_of(step)])
        # DDP's gradients, and so its losses, are means over the ranks.
        assert sum(one["loss"] for one in step) / 2 == pytest.approx(float(losses.mean()), abs=1e-6)


def test_ranks_are_alike_in_every_step(ranks):
    for step in steps_of(ranks, "flattened"):
        tokens = [sum(one["tokens"] for one in step[begin : begin + SLOTS]) for begin in (0, SLOTS)]
        assert max(tokens) < 1.01 * sum(tokens) / 2


@pytest.mark.parametrize("which, count, steps", [(0, 5, 1), (1, 5, 1), (2, 17, 2), (3, 1, 1)])
def test_each_of_a_few_sequences_is_trained_once_an_epoch(ranks, alone, which, count, steps):
    of_ranks = [one["few"][which] for one in ranks]
    for one in of_ranks:
        assert one["steps"] == one["max_steps"] == 2 * steps and len(one["microbatches"]) == 2 * steps * SLOTS
    trained = []
    for begin in range(0, 2 * steps * SLOTS, SLOTS):
        microbatches = [each for one in of_ranks for each in one["microbatches"][begin : begin + SLOTS]]
        # What stands in for sequences has no loss.
        sequences = [number for each in microbatches if each["loss"] for number in each["sequences"]]
        losses = torch.cat([alone[number] for number in sequences])
        assert sum(one["loss"] for one in microbatches) / 2 == pytest.approx(float(losses.mean()), abs=1e-6)
        trained += sequences
    assert sorted(trained) == sorted([*range(count)] * 2)
    assert sum(not each["loss"] for one in of_ranks for each in one["microbatches"]) >= 2 * (8 * steps - count)


def test_what_can_not_stand_in_for_sequences_is_told(tmp_path):
    class Labelled(SeenTrainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return model(**inputs, labels=inputs["input_ids"], num_items_in_batch=num_items_in_batch).loss

    refused("has fewer sequences, or rows, than micro-batches.*Lower gradient_accumulation_steps, or give more of them$",
            collator=lambda items: {"input_ids": torch.tensor(items[0]["input_ids"])[None]}, kind=Labelled,
            data=dataset().select(range(3)).remove_columns("labels"), options={"padded": False})
    refused("which make no global batch; per_device_train_batch_size, times gradient_accumulation_steps and ranks, is 16",
            data=dataset().select(range(5)), dataloader_drop_last=True)


def test_a_training_goes_on_amid_an_epoch_as_if_it_had_not_ended(ranks, tmp_path):
    runs = [(one[run], 5) for one in ranks for run in ("interrupted", "older_interrupted")]
    for (whole, rest), at in (*runs, (interrupted(tmp_path, 9), 9)):
        assert rest["microbatches"] == whole["microbatches"][SLOTS * at :] != []
        assert rest["weights"] == whole["weights"] and rest["steps"] == whole["steps"]


def test_accelerate_is_kept_from_dividing_batches_once_more(ranks):
    assert all("leave the DataLoader out of accelerator.prepare()" in one["prepared"] for one in ranks)


def test_transformers_before_5_17_train_on_the_same_batches(ranks, tmp_path):
    assert all(one["older"] == one["flattened"] for one in ranks)
    with before_5_17():
        (whole, rest) = interrupted(tmp_path, 9)
    assert rest["microbatches"] == whole["microbatches"][SLOTS * 9 :] != []


def refused(message, options=None, collator=None, kind=SeenTrainer, data=None, model=None, **of_arguments):
    """plan_batches, or the training, says so."""
    trainer = kind(
        model or tiny_llama(),
        arguments("unused", **of_arguments),
        train_dataset=dataset() if data is None else data,
        data_collator=collator or transformers.DataCollatorWithFlattening(),
    )
    with pytest.raises(ValueError, match=message):
        plan_batches(trainer, **{"max_tokens": BUDGET, **(options or {})})
        trainer.train()


@pytest.mark.parametrize("message, how", [
    ("dp is given; it is the trainer's", {"options": {"dp": 2}}),
    ("rows are not packed .*: give max_tokens", {"options": {"max_tokens": None}}),
    ("padded is False, and passes is given, whose scan says so: leave it out",
     {"options": {"max_tokens": None, "passes": [batchplan.Pass(BUDGET, scan="optimal")], "padded": False}}),
    ('effort is "zzz"', {"options": {"effort": "zzz"}}),
    ("lengths has 2 entries; the training dataset has 100", {"options": {"lengths": [1, 2]}}),
    (r"manifest.lengths\[\d+\] \(lengths\[\d+\]\) is \d+, but passes\[0\].max_tokens_per_microbatch \(max_tokens\) is 40", {"options": {"max_tokens": 40}}),
    ("gradient_accumulation_steps is 1; global batch 0 of epoch 0 needs 3 on each rank: raise it or max_tokens, or "
     "lower per_device_train_batch_size",
     {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 16}),
    ('train_sampling_strategy is "group_by_length"', {"train_sampling_strategy": "group_by_length"}),
    ("auto_find_batch_size is True", {"auto_find_batch_size": True}),
    ("accelerator_config.dispatch_batches is True", {"accelerator_config": {"dispatch_batches": True}}),
    ("accelerator_config.split_batches is True", {"accelerator_config": {"split_batches": True}}),
])
def test_what_a_plan_does_not_keep_is_refused_by_name(message, how):
    refused(message, **how)


def test_datasets_that_can_not_be_planned_are_refused():
    refused("train_dataset is a IterableDataset, a stream", data=dataset().to_iterable_dataset(), max_steps=3)
    refused("items have no input_ids: give lengths", data=[{"pixels": [1]}] * 40)


def test_models_that_mix_the_sequences_of_a_row_are_refused_where_the_collator_flattens(monkeypatch):
    torch.manual_seed(0)
    shape = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1}
    mamba = transformers.MambaForCausalLM(transformers.MambaConfig(**shape, state_size=8))
    refused("DataCollatorWithFlattening flattens batches, but MambaForCausalLM lets packed sequences see each", model=mamba)
    layers = {**shape, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "layer_types": ["conv"]}
    hybrid = transformers.Lfm2ForCausalLM(transformers.Lfm2Config(**layers))
    refused("Lfm2ForCausalLM can't be given packed sequences: .*Install `causal_conv1d`", model=hybrid)
    monkeypatch.setattr(transformers.models.lfm2.modeling_lfm2, "causal_conv1d_fn", convolved)
    refused("Lfm2ForCausalLM keeps sequences of a row apart by seq_idx, which the collator does not give", model=hybrid)
    with_seq_idx = transformers.DataCollatorWithFlattening(return_seq_idx=True)
    trainer = SeenTrainer(
        hybrid, arguments("unused", max_steps=1), train_dataset=dataset(), data_collator=with_seq_idx)
    plan_batches(trainer, max_tokens=BUDGET)
    trainer.train()


def test_losses_that_are_means_of_microbatches_are_refused():
    model = tiny_llama()
    model.accepts_loss_kwargs = False
    refused("the loss of LlamaForCausalLM is the mean of a micro-batch", model=model)


def test_trainers_that_draw_their_own_batches_are_refused():
    class OwnTrainer(SeenTrainer):
        def get_train_dataloader(self):
            return super().get_train_dataloader()

    own = r"OwnTrainer.get_train_dataloader draws batches of its own.*plan_batches\(transformers.Trainer"
    refused(own, kind=OwnTrainer)
    with pytest.raises(ValueError, match="trainer is a int; must be a transformers.Trainer, or its class"):
        plan_batches(3, max_tokens=8)


def test_a_trainer_that_chooses_its_own_sampler_after_all_is_told(tmp_path, monkeypatch):
    class InOrder(SeenTrainer):
        def _get_train_sampler(self, dataset=None):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    for name in ("_get_train_sampler", "get_train_dataloader", "train"):
        # Put back afterwards.
        monkeypatch.setattr(transformers.Trainer, name, vars(transformers.Trainer)[name])
    plan_batches(transformers.Trainer, max_tokens=BUDGET)
    trainer = InOrder(
        tiny_llama(), arguments(tmp_path), train_dataset=dataset(),
        data_collator=transformers.DataCollatorWithFlattening(),
    )
    with pytest.raises(ValueError, match="the training batches come from a BatchSampler of the trainer's own"):
        trainer.train()


def test_lengths_come_from_their_column_too(tmp_path):
    collator = transformers.DataCollatorWithFlattening()
    trainer = trainer_of(tmp_path, collator, max_steps=1)
    trainer.train_dataset = dataset().add_column("length", [1] * len(SEQUENCES))
    plan_batches(trainer, max_tokens=4)
    batches = list(trainer.get_train_dataloader().batch_sampler)
    assert sorted(map(len, batches)) == [1] * 4 + [4] * 24


def test_what_can_be_read_once_is_there_for_every_training(tmp_path):
    lengths = [len(one) for one in SEQUENCES]
    collator, loads = transformers.DataCollatorWithFlattening(), {"images": 4.0 * max(lengths)}
    samplers = []
    for read in (iter, list):
        trainer = trainer_of(tmp_path, collator)
        plan_batches(
            trainer, max_tokens=2 * BUDGET, lengths=read(lengths), kinds=read([length % 2 for length in lengths]),
            loads={"patches": read(lengths)}, items={"images": read([read([float(length)]) for length in lengths])},
            limits=loads)
        samplers += [list(trainer._get_train_sampler()), list(trainer._get_train_sampler())]
    assert samplers[0] == samplers[1] == samplers[2] == samplers[3] != []


@pytest.mark.parametrize("preset", [None, "verl", "nemo_rl_dynamic"])
@pytest.mark.parametrize("padded", [False, True])
def test_micro_batches_are_laid_out_as_the_collator_does(tmp_path, preset, padded):
    trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening())
    plan_batches(trainer, max_tokens=2 * BUDGET, preset=preset, padded=padded)
    plan, _ = trainer._get_train_sampler().batches.plan(0, 0)
    assert plan.passes[0].padded == padded


def test_an_epoch_whose_long_sequences_come_together_is_divided_too(tmp_path):
    """A global batch of 16 has room for one of 60 tokens in each of four micro-batches; seven are an epoch."""
    lengths = numpy.array([60] * 20 + [10] * 80)
    for seed in range(12):
        trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening(), seed=seed, max_steps=14)
        plan_batches(trainer, lengths=lengths, max_tokens=100)
        sampler = trainer._get_train_sampler()
        for epoch in range(2):
            sampler.set_epoch(epoch)
            batches = list(sampler)
            assert len(batches) == 7 * 4 and all(lengths[batch].sum() <= 100 for batch in batches)
            assert sorted(index for batch in batches for index in batch) == list(range(100))


def test_the_order_is_that_of_the_arguments(tmp_path):
    def order(**options):
        trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening(), **options)
        plan_batches(trainer, max_tokens=2 * BUDGET)
        batches = list(trainer.get_train_dataloader().batch_sampler)
        return [sorted(index for batch in batches[:4] for index in batch)]

    assert order(train_sampling_strategy="sequential") == [list(range(16))]
    assert order(seed=1) == order(seed=1) != order(seed=2) == order(seed=1, data_seed=2)


def test_every_global_batch_holds_a_mixture_and_the_largest_comes_first(tmp_path):
    lengths = numpy.random.default_rng(0).integers(5, 60, 100)
    sources = numpy.arange(100) % 4 == 0
    trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening())
    orders = []
    for first in (False, True):
        plan_batches(
            trainer, lengths=lengths, max_tokens=400, mixture=Mixture(sources.astype(int)), largest_first=first)
        batches = list(trainer._get_train_sampler())
        steps = [numpy.concatenate(batches[begin : begin + SLOTS]) for begin in range(0, len(batches), SLOTS)]
        assert sorted(numpy.concatenate(steps)) == list(range(100))
        assert all(abs(sources[one].sum() - len(one) / 4) < 1 for one in steps)
        orders.append([sorted(one.tolist()) for one in steps])
    assert orders[1][1:] == [one for one in orders[0] if one != orders[1][0]]
    for name, value in (("mixture", Mixture([0])), ("largest_first", True)):
        with pytest.raises(ValueError, match=f"{name} is given; GRPOTrainer generates what it trains on"):
            plan_batches(trl.GRPOTrainer, max_tokens=BUDGET, **{name: value})


@pytest.mark.parametrize("padded", [False, True])
def test_micro_batches_are_within_the_limits_of_loads(tmp_path, padded):
    random = numpy.random.default_rng(0)
    lengths, patches = random.integers(5, 60, 100), random.integers(0, 3, 100) * 50.0
    options = {"loads": {"patches": patches}, "limits": {"patches": 300}}
    if not padded:
        options["cost"] = batchplan.CostModel(1, loads={"patches": 2})
    trainer = trainer_of(tmp_path, transformers.DataCollatorWithFlattening())
    plan_batches(trainer, lengths=lengths, padded=padded, max_tokens=500, **options)
    batches = list(trainer._get_train_sampler())
    assert sorted(numpy.concatenate(batches)) == list(range(100))
    assert max(patches[one].sum() for one in batches) <= 300


def test_what_a_trainer_does_not_do_with_loads_is_refused_by_name():
    loads = {"patches": [1.0] * len(SEQUENCES)}
    dealt = batchplan.CostModel(1, loads=[batchplan.LoadCost("patches", 1.0, dealt=True)])
    items = {"patches": [[1.0]] * len(SEQUENCES)}
    refused(r'cost.loads\[0\], of "patches", is dealt; a trainer computes', {"items": items, "cost": dealt})
    refused("prompt_lengths is given; a trainer lays every sequence whole", {"prompt_lengths": [1] * len(SEQUENCES)})
    refused("mini_batch_groups is given; it is the trainer's", {"mini_batch_groups": 4})
    for name, value in (("loads", loads), ("items", items)):
        with pytest.raises(ValueError, match=f"{name} is given; of a generation batch only"):
            plan_batches(trl.GRPOTrainer, max_tokens=BUDGET, **{name: value})
