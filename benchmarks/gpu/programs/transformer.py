"""A two-layer transformer with an embedding: forward, backward and optimizer, a few steps, eager or compiled.

In FP32, or with autocast to BF16.
"""

from __future__ import annotations

import argparse
import math
import sys

import torch
from torch import nn

VOCABULARY, LONGEST = 1000, 512


class Model(nn.Module):
    """Token and position embeddings, two encoder layers, and a head over the vocabulary."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of every next token."""
        hidden = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def main() -> int:
    """Train for a few steps; return 1 unless the loss is finite and falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Model(options.width).to(options.device)
    step_of = torch.compile(model) if options.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(VOCABULARY, (options.batch, options.length + 1)).to(options.device)
    losses = []
    for _ in range(options.steps):
        optimizer.zero_grad()
        with torch.autocast(options.device, torch.bfloat16, enabled=options.bf16):
            scores = step_of(tokens[:, :-1])
            loss = nn.functional.cross_entropy(scores.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    right = all(map(math.isfinite, losses)) and (len(losses) < 2 or losses[-1] < losses[0])
    print(f"transformer: loss {losses[0]:.4f} to {losses[-1]:.4f}: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
