"""batchplan.integrations.open_instruct: the packs of a batch, and their place in an open-instruct of stand-ins."""

import dataclasses
import sys
import types

import numpy
import pytest
import torch
from batchplan.integrations import open_instruct
from batchplan.integrations._replace import stock_of
from lengths import assert_each_once, lockstep, long_tailed

PAD = 0


@dataclasses.dataclass
class Packed:
    """Lists of one entry a pack, but for the responses, of one a response."""

    query_responses: list
    response_masks: list
    dones: list
    original_responses: list
    vllm_logprobs: list
    advantages: list | None = None


@dataclasses.dataclass
class Collated:
    query_responses: list
    response_masks: list


class OpenInstruct:
    """Packs in the order of the batch, and shuffles each rank's packs."""

    @staticmethod
    def pack_sequences(queries, responses, masks, pack_length, pad_token_id, vllm_logprobs, min_num_batches=1,
                       mask_tool_use=False):
        packs, tokens = [], 0
        for place, (query, response) in enumerate(zip(queries, responses)):
            own = [token for token in query + response if token != pad_token_id]
            if not packs or tokens + len(own) > pack_length:
                packs.append([])
                tokens = 0
            packs[-1].append((place + 1, own, len(query), masks[place], vllm_logprobs[place]))
            tokens += len(own)
        return Packed(
            [torch.tensor([token for one in pack for token in one[1]]) for pack in packs],
            [torch.tensor([number if at >= query and (mask[at - query] or not mask_tool_use) else 0
                           for number, own, query, mask, _ in pack for at in range(len(own))]) for pack in packs],
            [torch.tensor([number if at == len(own) - 1 else 0
                           for number, own, *_ in pack for at in range(len(own))]) for pack in packs],
            responses,
            [torch.tensor([one for *_, own in pack for one in own]) for pack in packs],
        )

    @staticmethod
    def prepare_collated_data_for_workers(packed, dp_world_size, per_device_train_batch_size, pad_token_id):
        of_rank = len(packed.query_responses) // dp_world_size
        workers = []
        for rank in range(dp_world_size):
            order = numpy.random.permutation(of_rank) + rank * of_rank
            workers.append(Collated(
                [packed.query_responses[place] for place in order], [packed.response_masks[place] for place in order]))
        return workers


@pytest.fixture
def trainer(monkeypatch):
    """The module whose actor packs."""
    module = types.ModuleType("open_instruct.data_loader")
    for name in ("pack_sequences", "prepare_collated_data_for_workers"):
        setattr(module, name, getattr(OpenInstruct, name))
    monkeypatch.setitem(sys.modules, "open_instruct", types.ModuleType("open_instruct"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def batch_of(lengths):
    """Sequences of these lengths, all of whose tokens are their number from 1."""
    queries = [[number] * (length // 3) for number, length in enumerate(lengths, 1)]
    responses = [[number] * (length - length // 3) for number, length in enumerate(lengths, 1)]
    return {"queries": queries, "responses": responses, "masks": [[1, *[0] * (len(one) - 1)] for one in responses],
            "vllm_logprobs": [[float(one[0])] * len(one) for one in responses], "pad_token_id": PAD}


def slots_of(module, lengths, ranks, budget=4096, **others):
    """The micro-batches of all ranks, of positions, as the workers get them."""
    packed = module.pack_sequences(**batch_of(lengths), pack_length=budget, min_num_batches=ranks, **others)
    assert packed.original_responses == batch_of(lengths)["responses"]
    for tokens, mask, dones in zip(packed.query_responses, packed.response_masks, packed.dones):
        assert (mask[mask > 0] == tokens[mask > 0]).all() and (dones[dones > 0] == tokens[dones > 0]).all()
    numpy.random.seed(3)
    workers = module.prepare_collated_data_for_workers(packed, ranks, 1, pad_token_id=PAD)
    of_ranks = [[sorted(set((tokens - 1).tolist())) for tokens in one.query_responses] for one in workers]
    return [list(slot) for slot in zip(*of_ranks)]


# Of the packs of these batches, the trainer leaves some out.
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_every_response_is_trained_in_packs_of_like_cost(trainer, seed):
    lengths = long_tailed(300, seed, longest=4000)
    stock = slots_of(trainer, lengths, 8)
    assert sum(len(part) for slot in stock for part in slot) < 300
    open_instruct.install()
    planned = slots_of(trainer, lengths, 8)
    assert_each_once([part for slot in planned for part in slot], 300)
    assert all(sum(lengths[place] for place in part) <= 4096 for slot in planned for part in slot)
    # A slot's packs stay together when they are shuffled.
    even = sum(lockstep(lengths, [[part]]) for slot in planned for part in slot) / 8
    assert lockstep(lengths, planned) < 1.06 * even
    assert planned != sorted(planned, key=lambda slot: -sum(map(sum, slot)))


def test_packs_are_a_multiple_of_the_mini_batches(trainer):
    lengths = long_tailed(300, 1, longest=4000)
    open_instruct.install(num_mini_batches=4)
    slots = slots_of(trainer, lengths, 8)
    assert len(slots) % 4 == 0
    assert_each_once([part for slot in slots for part in slot], 300)
    # As far as sequences go.
    assert len(slots_of(trainer, [3] * 9, 3)) == 1
    assert len(slots_of(trainer, [3] * 12, 3)) == 4


def test_tensors_are_those_of_the_trainer(trainer):
    given = batch_of([9, 4, 7, 12, 5])
    stock = trainer.pack_sequences(**given, pack_length=12, mask_tool_use=True)
    open_instruct.install()
    planned = trainer.pack_sequences(**given, pack_length=12, min_num_batches=2, mask_tool_use=True)
    assert planned.advantages is None

    def tokens_of(packed):
        """Of each sequence its tokens, masks and log-probabilities."""
        found = {}
        for tokens, mask, dones in zip(packed.query_responses, packed.response_masks, packed.dones):
            for number in tokens.unique().tolist():
                own = tokens == number
                found[number] = (int(own.sum()), mask[own].tolist(), dones[own].tolist())
        return found, sorted(one for row in packed.vllm_logprobs for one in row.tolist())

    assert tokens_of(planned) == tokens_of(stock)


def test_one_rank_has_the_trainers_packs(trainer):
    given = {**batch_of([9, 4, 7, 12, 5]), "pack_length": 13}
    stock = trainer.pack_sequences(**given)
    open_instruct.install()
    for tokens, own in zip(trainer.pack_sequences(**given).query_responses, stock.query_responses):
        assert tokens.tolist() == own.tolist()


def test_padding_is_no_length_and_an_overlong_sequence_is_alone(trainer):
    given = batch_of([20, 3, 3, 3])
    given["responses"][1] += [PAD] * 50
    given["masks"][1] += [0] * 50
    given["vllm_logprobs"][1] += [0.0] * 50
    open_instruct.install()
    packed = trainer.pack_sequences(**given, pack_length=9, min_num_batches=2)
    assert sorted(map(len, packed.query_responses)) == [9, 20]


# Too few sequences share a pack: of all, of those that ranks have one more of, and of mini-batches.
@pytest.mark.parametrize(("lengths", "ranks", "mini_batches", "slots"), [
    ([3, 4, 5], 4, 1, None), ([300] * 24, 16, 1, None), ([300] * 11, 2, 1, None), ([300] * 10, 2, 4, 5),
])
def test_what_can_not_be_divided_is_packed_as_without_a_plan(trainer, caplog, lengths, ranks, mini_batches, slots):
    stock = trainer.pack_sequences(**batch_of(lengths), pack_length=320, min_num_batches=ranks).query_responses
    open_instruct._told.clear()
    open_instruct.install(num_mini_batches=mini_batches)
    found = slots_of(trainer, lengths, ranks, 320)
    if slots is None:
        planned = trainer.pack_sequences(**batch_of(lengths), pack_length=320, min_num_batches=ranks).query_responses
        assert [one.tolist() for one in planned] == [one.tolist() for one in stock]
        assert "is packed by open-instruct's own rule" in caplog.text
    else:
        assert len(found) == slots and "can't be divided into 4 mini-batches" in caplog.text
        assert_each_once([part for slot in found for part in slot], len(lengths))
    assert caplog.text.count("batchplan: ") == 1


def test_what_is_wrong_is_refused(trainer):
    for wrong in ({"effort": "much"}, {"synchronization": "never"}, {"cost": 3.0}, {"num_mini_batches": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            open_instruct.install(**wrong)


def test_installed_twice_it_is_there_once(trainer, monkeypatch):
    # The module that it is from, whose function is sent by name.
    home = types.ModuleType("open_instruct.rl_utils")
    home.pack_sequences = OpenInstruct.pack_sequences
    monkeypatch.setitem(sys.modules, home.__name__, home)
    open_instruct.install()
    open_instruct.install(effort="fast")
    for name in ("pack_sequences", "prepare_collated_data_for_workers"):
        assert stock_of(getattr(trainer, name)) is getattr(trainer, name).keywords["stock"] is getattr(OpenInstruct, name)
    assert home.pack_sequences is OpenInstruct.pack_sequences


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="open_instruct"):
        open_instruct.install()
