"""A small server: a transformer answers batches of prompts, token by token, by one CUDA graph a token.

It serves until its time is up, its requests are served, or it is told to stop.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, LONGEST, WIDTH, HEADS, LAYERS, BATCH = 8192, 256, 512, 8, 4, 8


class Layer(nn.Module):
    """Attention over a cache of keys and values, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(BATCH, HEADS, LONGEST, WIDTH // HEADS))

    def forward(self, hidden: torch.Tensor, places: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return what becomes of the tokens at some places; their keys and values stay in the cache."""
        cut = self.inputs(self.before(hidden)).view(BATCH, -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = cut.unbind(0)
        self.keys.index_copy_(2, places, key)
        self.values.index_copy_(2, places, value)
        mixed = functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)
        hidden = hidden + self.output(mixed.transpose(1, 2).reshape(BATCH, -1, WIDTH))
        return hidden + self.down(functional.gelu(self.up(self.between(hidden))))


class Model(nn.Module):
    """Embeddings, layers, and a head over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return the scores of the token that comes after the last one."""
        hidden = self.tokens(tokens) + self.places(places)
        mask = torch.arange(LONGEST, device=tokens.device) <= places[:, None]
        for layer in self.layers:
            hidden = layer(hidden, places, mask)
        return self.head(self.last(hidden[:, -1]))


def captured(model: Model, device: str) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Return what gives the scores after one token more: a CUDA graph, captured once; on a processor the model."""
    token, place = (
        torch.zeros(BATCH, 1, dtype=torch.long, device=device),
        torch.zeros(1, dtype=torch.long, device=device),
    )
    if device == "cpu":
        return lambda tokens, at: model(tokens, torch.tensor([at]))
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            model(token, place)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = model(token, place)

    def replayed(tokens: torch.Tensor, at: int) -> torch.Tensor:
        token.copy_(tokens)
        place.fill_(at)
        graph.replay()
        return scores

    return replayed


@contextlib.contextmanager
def named(phase: str, device: str) -> Iterator[None]:
    """Mark a phase by an NVTX range."""
    with torch.cuda.nvtx.range(phase) if device != "cpu" else contextlib.nullcontext():
        yield


def answered(
    model: Model, decode: Callable[[torch.Tensor, int], torch.Tensor], prompt: torch.Tensor, tokens: int, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return prompt and answer, the likeliest tokens, and the scores of the last one."""
    length = prompt.shape[1]
    with named("prefill", device):
        scores = model(prompt, torch.arange(length, device=device))
    text = [prompt, scores.argmax(-1, keepdim=True)]
    with named("decode", device):
        for at in range(length, length + tokens - 1):
            scores = decode(text[-1], at)
            text.append(scores.argmax(-1, keepdim=True))
    return torch.cat(text, 1), scores


def main() -> int:
    """Serve; return 1 where an answer is wrong. SIGINT and SIGTERM end it after the request at hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=0, help="end after so many")
    parser.add_argument("--tokens", type=int, default=32, help="length of an answer")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two requests")
    options = parser.parse_args()
    stopped: list[int] = []
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, lambda sent, _: stopped.append(sent))
    torch.manual_seed(1)
    served, right = 0, True
    with torch.inference_mode():
        model = Model().to(options.device).eval()
        decode = captured(model, options.device)
        began = time.monotonic()
        while right and not stopped and time.monotonic() - began < options.seconds:
            prompt = torch.randint(VOCABULARY, (BATCH, 16 + 37 * served % 128)).to(options.device)
            text, scores = answered(model, decode, prompt, options.tokens, options.device)
            if not served:
                # All tokens but the last at once must give the scores that the tokens gave one by one.
                whole = model(text[:, :-1], torch.arange(text.shape[1] - 1, device=options.device))
                right = torch.allclose(whole, scores, atol=2e-3)
            served += 1
            if served == options.requests:
                break
            time.sleep(options.pause)
    print(
        f"server: {served} requests of {BATCH} x {options.tokens} tokens: {'right' if right else 'WRONG'}", flush=True
    )
    return 0 if right and served else 1


if __name__ == "__main__":
    sys.exit(main())
