"""A training step of a small transformer, on rows that share prefixes and on each sequence alone.

As a program: one of two ranks of a gloo group, shared_training.py STORE RANK ATTENTION, that take a plan's
micro-batches and add up their gradients; prints what differs at most from one rank without sharing.
"""

import dataclasses
import subprocess
import sys
from unittest import mock

import batchplan
import numpy
import torch

from batchplan.torch import PackedBatch, PackedLoss
from forests import forests, micro_batch, token_ids
from toy_transformer import ToyTransformer


class Batch:
    """Several micro-batches of a policy gradient. Sequences that share a token have other masks, advantages and old
    log-probabilities for it."""

    def __init__(self, seed, dtype, device="cpu", rounds=6):
        random = numpy.random.default_rng(seed)
        self.microbatches, self.ids = [], []
        for lengths, shared in forests(seed, rounds):
            begin = len(self.ids)
            order = random.permutation(len(lengths))
            own = token_ids(random, lengths, shared)
            self.ids += [own[place, : lengths[place]].to(device) for place in numpy.argsort(order)]
            self.microbatches.append(micro_batch(lengths, shared, int(random.integers(0, 3)), begin + order))
        lengths = [len(one) for one in self.ids]
        self.mask = [torch.from_numpy(random.random(length) < 0.7).to(device) for length in lengths]
        self.old = [torch.from_numpy(random.normal(-3, 1, length)).to(dtype).to(device) for length in lengths]
        self.advantages = torch.from_numpy(random.normal(size=len(lengths))).to(dtype).to(device)
        self.global_tokens = sum(int(one.sum()) for one in self.mask)

    def planned(self, rank):
        """Micro-batches of one of two ranks, by what the tokens have in common."""
        # A plan has no sequences without tokens.
        kept = numpy.array([place for place, ids in enumerate(self.ids) if len(ids)], numpy.uint32)
        prefixes, withs = batchplan.common_prefixes([self.ids[place].numpy() for place in kept], minimum=1)
        plan = batchplan.plan([len(self.ids[place]) for place in kept], dp=2, max_tokens=128, shared_prefixes=prefixes,
                              shared_with=withs)
        assert plan.metrics.laid_tokens < plan.metrics.true_tokens
        return [dataclasses.replace(one, indices=kept[one.indices]) for one in plan.rank(rank)]

    def fields(self):
        return {"ids": self.ids, "mask": self.mask, "old": self.old}


def loss_of(logits, fields, global_tokens):
    """As one writes it for padded sequences, [n, L, V] and [n, L]: clipped."""
    log_probs = torch.log_softmax(logits[:, :-1], dim=-1)
    chosen = log_probs.gather(-1, fields["ids"][:, 1:].unsqueeze(-1)).squeeze(-1)
    ratio = (chosen - fields["old"][:, 1:]).exp()
    advantages = fields["advantages"][:, 1:]
    kept = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    return -(kept * fields["mask"][:, 1:]).sum() / global_tokens


def model_of(dtype, device="cpu"):
    torch.manual_seed(0)
    return ToyTransformer().to(dtype).to(device)


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def without_sharing(batch, dtype, device="cpu"):
    model, total = model_of(dtype, device), 0.0
    for place, ids in enumerate(batch.ids):
        if not len(ids):
            continue
        fields = {name: rows[place][None] for name, rows in batch.fields().items()}
        fields["advantages"] = batch.advantages[place].expand(1, len(ids))
        loss = loss_of(model.alone(ids), fields, batch.global_tokens)
        loss.backward()
        total += loss.item()
    return total, gradients(model)


def dense(packed):
    """Attention under the mask that subtree_end tells."""
    place = torch.arange(packed.row.width, device=packed.row.device)
    mask = (place <= place[:, None]) & (place[:, None] < packed.subtree_end)

    def attend(query, key, value):
        scores = query @ key.transpose(1, 2) / key.shape[-1] ** 0.5
        return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ value

    return attend


def flex(packed):
    """FlexAttention. On a CPU it refuses gradients, which torch's operations that it is written out in have."""
    from torch.nn.attention import flex_attention as module

    mask = packed.block_mask(BLOCK_SIZE=16)

    def attend(query, key, value):
        with mock.patch.object(module, "_validate_device", lambda *_: None):
            return module.flex_attention(query[None], key[None], value[None], block_mask=mask)[0]

    return attend


def two_ranks_differ_by(attention, folder):
    """At most, of double and of single precision, on each rank."""
    ranks = [
        subprocess.Popen([sys.executable, __file__, folder / "store", str(rank), attention], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    return [tuple(map(float, one.split())) for one in printed]


def with_sharing(batch, dtype, device="cpu", *, vectorized=False, attention=dense, microbatches=None):
    model, total = model_of(dtype, device), 0.0
    loss = PackedLoss(loss_of, vectorized=vectorized)
    for planned in batch.microbatches if microbatches is None else microbatches:
        packed = PackedBatch(
            planned, batch.fields(), per_sequence={"advantages": batch.advantages}, equal_prefixes=["ids"])
        if not packed.row.width:
            continue
        row = packed["ids"], packed.position_ids, packed.sequence_ids
        (logits,) = model([row], attention(packed))
        one = loss(packed, logits, global_tokens=batch.global_tokens)
        one.backward()
        total += one.item()
    return total, gradients(model)


def difference(found, expected):
    """The largest of the losses and of the gradients, relative to the largest gradient of the tensor, or 1."""
    pairs = [(torch.tensor(found[0]), torch.tensor(expected[0])), *zip(found[1], expected[1])]
    return max(float((one - other).abs().max() / max(float(other.abs().max()), 1.0)) for one, other in pairs)


def main():
    from torch import distributed

    store, rank, attention = sys.argv[1], int(sys.argv[2]), {"dense": dense, "flex": flex}[sys.argv[3]]
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
    for dtype in (torch.float64, torch.float32):
        batch = Batch(9, dtype)
        total, grads = with_sharing(batch, dtype, attention=attention, microbatches=batch.planned(rank))
        total = torch.tensor(total, dtype=torch.float64)
        for one in (total, *grads):
            distributed.all_reduce(one)
        print(difference((total.item(), grads), without_sharing(batch, dtype)), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
