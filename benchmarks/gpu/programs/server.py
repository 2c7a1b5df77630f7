"""A small server: it answers batches of different lengths until its time is up or it is told to stop."""

from __future__ import annotations

import argparse
import signal
import sys
import time

import torch
from torch import nn


def main() -> int:
    """Serve; return 1 where an answer is wrong. SIGINT and SIGTERM end it after the request at hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between two requests")
    options = parser.parse_args()
    stopped: list[int] = []
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, lambda sent, _: stopped.append(sent))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.Softmax(-1)).to(options.device)
    began, served, right = time.monotonic(), 0, True
    with torch.inference_mode():
        while right and not stopped and time.monotonic() - began < options.seconds:
            request = torch.full((1 + 37 * served % 128, 1024), 0.01 * (served % 7), device=options.device)
            right = bool(torch.allclose(model(request).sum(-1), torch.ones(len(request), device=options.device), 1e-3))
            served += 1
            time.sleep(options.pause)
    print(f"server: {served} requests: {'right' if right else 'WRONG'}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
