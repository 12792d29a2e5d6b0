#!/usr/bin/env python3
"""formulas_test.py TRAINING_MD: the Python in docs/training.md gives the numbers that the C++ tests expect."""
import pathlib
import re
import sys

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
names = {}
exec(re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1), names)

tests = pathlib.Path(__file__).resolve().parent
sampler = (tests.parent / "data_layer/sampler_test.cpp").read_text(encoding="utf-8")
state = (tests / "training_state_test.cpp").read_text(encoding="utf-8")

orders = re.findall(r"permutation\((\d+), (\d+), (\d+)\), \(std::vector<std::int64_t>\{([\d, ]+)\}", sampler)
seeds = re.findall(r"EXPECT_EQ\(micro_step_seed\((\d+), (\d+), (\d+), (\d+)\), (\d+)u\)", state)
assert len(orders) == 2 and len(seeds) == 2, "the C++ tests have changed their form"
for size, seed, epoch, order in orders:
    assert names["permutation"](int(size), int(seed), int(epoch)) == [int(i) for i in order.split(",")], order
for *arguments, expected in seeds:
    assert names["micro_step_seed"](*map(int, arguments)) == int(expected), expected

cut = [names["part_of"](list(range(11)), i, 3) for i in range(3)]
assert cut == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]], cut
