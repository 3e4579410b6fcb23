"""A small transformer whose attention is masked by sequence, so that it runs padded rows and packed
ones alike; of a packed row, also the shards of context parallel ranks; or by any other attention."""

import torch
from torch import nn


class ToyTransformer(nn.Module):
    def __init__(self, vocabulary=50, width=16, heads=2, layers=2, longest=64):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "before": nn.LayerNorm(width),
                    "query_key_value": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "between": nn.LayerNorm(width),
                    "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
                }
            )
            for _ in range(layers)
        )
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, shards, attend=None):
        """Logits of every shard. A shard is (ids, positions, sequences), [tokens] each; attention goes
        over all of them, causal within a sequence, or is that of attend(query, key, value), [heads, tokens, width]."""
        hidden = [self.tokens(ids) + self.positions(positions) for ids, positions, _ in shards]
        places = torch.cat([positions for _, positions, _ in shards])
        sequences = torch.cat([one for _, _, one in shards])
        for layer in self.layers:
            made = [layer["query_key_value"](layer["before"](one)).chunk(3, dim=-1) for one in hidden]
            keys = self._split(torch.cat([key for _, key, _ in made]))
            values = self._split(torch.cat([value for _, _, value in made]))
            for shard, ((query, _, _), (_, positions, own)) in enumerate(zip(made, shards)):
                if attend is not None:
                    mixed = attend(self._split(query), keys, values).transpose(0, 1).reshape(len(query), -1)
                    hidden[shard] = self._after(layer, hidden[shard], mixed)
                    continue
                seen = (own[:, None] == sequences) & (positions[:, None] >= places)
                scores = self._split(query) @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
                weights = scores.masked_fill(~seen, -1e9).softmax(dim=-1)
                mixed = (weights @ values).transpose(0, 1).reshape(len(query), -1)
                hidden[shard] = self._after(layer, hidden[shard], mixed)
        return [self.head(self.last(one)) for one in hidden]

    @staticmethod
    def _after(layer, hidden, mixed):
        hidden = hidden + layer["out"](mixed)
        return hidden + layer["mlp"](layer["between"](hidden))

    def _split(self, tensor):
        return tensor.view(len(tensor), self.heads, -1).transpose(0, 1)

    def alone(self, ids):
        """Logits of one sequence, [1, tokens, vocabulary]."""
        places = torch.arange(len(ids), device=ids.device)
        return self([(ids, places, torch.zeros_like(places))])[0].unsqueeze(0)
