"""Trains a small language model, written down as its formulas are in papers; tells how long a step takes.

Each step draws a batch of a made-up language, in which some tokens are frequent and most are rare.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time

import torch
from torch import nn

VOCABULARY = 512


class Norm(nn.Module):
    """Brings every token to mean 0 and variance 1, then to a mean and a variance that are learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the tokens, brought there."""
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return self.scale * (x - mean) / torch.sqrt(variance + 1e-5) + self.shift


class Attention(nn.Module):
    """Every token looks at those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each token has seen."""
        batch, length, width = x.shape
        query, key, value = (
            each(x).view(batch, length, self.heads, -1).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.tril(torch.ones(length, length)).to(x.device)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        seen = torch.softmax(scores, -1) @ value
        return self.output(seen.transpose(1, 2).reshape(batch, length, width))


def gelu(x: torch.Tensor) -> torch.Tensor:
    """Return the GELU by its approximation."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Layer(nn.Module):
    """Attention, then a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = Norm(width), Norm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the tokens after this layer."""
        x = x + self.attention(self.before(x))
        return x + self.down(gelu(self.up(self.between(x))))


class Model(nn.Module):
    """Embeddings, layers, and a head over the vocabulary."""

    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, width // 64) for _ in range(layers))
        self.last, self.head = Norm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of every next token."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]).to(tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x))


def drawn(batch: int, length: int) -> torch.Tensor:
    """Return a batch of texts, with frequent tokens and rare ones."""
    return (VOCABULARY * torch.rand(batch, length + 1) ** 3).long()


def main() -> int:
    """Train for a few steps; return 1 unless the loss falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Model(options.width, options.layers, options.length).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    losses, seconds = [], []
    for step in range(options.steps):
        began = time.perf_counter()
        texts = drawn(options.batch, options.length)
        tokens, wanted = texts[:, :-1].to(options.device), texts[:, 1:].to(options.device)
        scores = model(tokens)
        loss = nn.functional.cross_entropy(scores.view(-1, VOCABULARY), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
        if step % 5 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    right = all(map(math.isfinite, losses)) and losses[-1] < losses[0]
    told = 1000 * statistics.median(seconds[options.steps // 4 :])
    print(f"language model: checksum {losses[-1]:.3f}, {told:.3f} ms a step: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
