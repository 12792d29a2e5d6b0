#!/usr/bin/env python3
"""Chooses a class-balanced part of MNIST, as four .gz idx files, always the same bytes for the same input.

Usage: make_mnist_subset.py FULL_MNIST_FOLDER OUTPUT_FOLDER [--train 5000] [--test 1000] [--seed 1]

tests/data/mnist was made by this from the four files of Y. LeCun, C. Cortes and C. Burges' MNIST.
"""
import argparse
import gzip
import pathlib
import random
import struct

IMAGES_MAGIC, LABELS_MAGIC, SIDE = 0x803, 0x801, 28


def read_idx(folder, split):
    images = gzip.open(folder / f"{split}-images-idx3-ubyte.gz").read()
    labels = gzip.open(folder / f"{split}-labels-idx1-ubyte.gz").read()
    magic, count, rows, columns = struct.unpack_from(">4I", images)
    assert (magic, rows, columns) == (IMAGES_MAGIC, SIDE, SIDE), "not an idx file of 28x28 images"
    assert struct.unpack_from(">2I", labels) == (LABELS_MAGIC, count), "labels do not fit the images"
    pixels = SIDE * SIDE
    return [images[16 + i * pixels:16 + (i + 1) * pixels] for i in range(count)], labels[8:]


def choose(labels, count, generator):
    """Indices of `count` samples, as many of each class, in random order."""
    by_class = [[i for i, label in enumerate(labels) if label == c] for c in range(10)]
    chosen = [i for members in by_class for i in generator.sample(members, count // 10)]
    generator.shuffle(chosen)
    return chosen


def write_gz(path, content):
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", compresslevel=9, fileobj=raw, mtime=0) as file:
        file.write(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=5000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", options.train), ("t10k", options.test)):
        images, labels = read_idx(options.source, split)
        chosen = choose(labels, count, random.Random(options.seed))
        header = struct.pack(">4I", IMAGES_MAGIC, len(chosen), SIDE, SIDE)
        write_gz(options.output / f"{split}-images-idx3-ubyte.gz", header + b"".join(images[i] for i in chosen))
        header = struct.pack(">2I", LABELS_MAGIC, len(chosen))
        write_gz(options.output / f"{split}-labels-idx1-ubyte.gz", header + bytes(labels[i] for i in chosen))


if __name__ == "__main__":
    main()
