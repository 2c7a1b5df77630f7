"""A training step of a two-layer perceptron in JAX, compiled by jit."""

from __future__ import annotations

import argparse
import math
import sys

import jax
import jax.numpy as jnp


def loss_of(weights: tuple[jax.Array, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    hidden, out = weights
    return jnp.mean((jnp.tanh(x @ hidden) @ out - y) ** 2)


@jax.jit
def step(weights: tuple[jax.Array, jax.Array], x: jax.Array, y: jax.Array):
    """Return the weights after a step, and the loss before it."""
    loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
    return tuple(weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)), loss


def main() -> int:
    """Train for a few steps; return 1 unless the loss is finite and falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    keys = jax.random.split(jax.random.PRNGKey(1), 4)
    weights = (0.03 * jax.random.normal(keys[0], (1024, 2048)), 0.02 * jax.random.normal(keys[1], (2048, 256)))
    x, y = jax.random.normal(keys[2], (2048, 1024)), jax.random.normal(keys[3], (2048, 256))
    losses = []
    for _ in range(options.steps):
        weights, loss = step(weights, x, y)
        losses.append(float(loss))
    right = all(map(math.isfinite, losses)) and losses[-1] <= losses[0]
    print(f"jax mlp: loss {losses[0]:.4f} to {losses[-1]:.4f}: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
