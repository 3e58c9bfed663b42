"""Fits y = a*x + b to noisy points by gradient descent, with nothing but Python.

A stand-in for a training job: it says which devices it was given and which it
can see, prints a line per epoch, and saves a checkpoint when it is told to stop.
"""

import argparse
import glob
import os
import random
import signal
import sys
import time


class Stop(Exception):
    pass


def on_term(signum, frame):
    raise Stop


def say(text):
    print(text, flush=True)


def devices():
    given = os.environ.get("CROFT_DEVICES") or os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
    seen = " ".join(sorted(glob.glob("/dev/croft-sim*"))) or "none"
    return f"devices: {given} (in /dev: {seen})"


def points(count, seed):
    rng = random.Random(seed)
    xs = [i / count for i in range(count)]
    return [(x, 3 * x + 1 + rng.gauss(0, 0.1)) for x in xs]


def step(data, a, b, rate):
    """One pass over the data: the parameters after it and the loss before it."""
    grad_a = grad_b = loss = 0.0
    for x, y in data:
        err = a * x + b - y
        grad_a += 2 * err * x
        grad_b += 2 * err
        loss += err * err
    n = len(data)
    return a - rate * grad_a / n, b - rate * grad_b / n, loss / n


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seconds-per-epoch", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", default="/tmp/checkpoint.txt", help="file to save to when stopped")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, on_term)
    epoch, a, b = 0, 0.0, 0.0
    try:
        say(devices())
        data = points(200, args.seed)
        for epoch in range(1, args.epochs + 1):
            began = time.monotonic()
            for _ in range(20):
                a, b, loss = step(data, a, b, rate=0.1)
            time.sleep(max(0.0, args.seconds_per_epoch - (time.monotonic() - began)))
            say(f"epoch {epoch} loss {loss:.6f}")
        say(f"done: y = {a:.3f}*x + {b:.3f}")
    except Stop:
        with open(args.checkpoint, "w") as f:
            f.write(f"epoch {epoch} a {a!r} b {b!r}\n")
        say("checkpoint saved")
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
