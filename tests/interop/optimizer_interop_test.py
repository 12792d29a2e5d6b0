"""Optimizers, schedules, exact sums and the loss scaler beside those of Python.

optimizer_interop_test.py OPTIMIZER_PROBE

How far rounding may take an optimizer is measured, not guessed: torch.optim in float64 is the exact course, torch.optim
in float32 on the same numbers shows what rounding does to it, and ours may be ALLOWANCE times as far from the exact one.
In float64 the same distance shrinks by the ratio of the two types' last places, 2^-29.
"""
import fractions
import math
import random
import struct
import subprocess
import sys
import unittest

try:
    import numpy
    import torch
    from torch.optim import lr_scheduler
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)
try:
    import transformers
except ImportError:
    transformers = None

STEPS, COUNT, RATE, GRAD_SCALE, DECAY = 200, 1001, 0.01, 0.25, 0.02
ALLOWANCE = 4
PROBE = None
STATES = {"sgd": [], "momentum": ["momentum_buffer"], "adam": ["exp_avg", "exp_avg_sq"],
          "adamw": ["exp_avg", "exp_avg_sq"], "adadelta": ["square_avg", "acc_delta"]}


def probe(*arguments, data=b""):
    return subprocess.run([PROBE, *map(str, arguments)], input=data, check=True, stdout=subprocess.PIPE).stdout


def numbers(output):
    return [float.fromhex(line) for line in output.decode().split()]


def make_optimizer(name, groups, **options):
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(groups, lr=RATE, momentum=0.9 if name == "momentum" else 0, **options)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adadelta": torch.optim.Adadelta}[name](
        groups, lr=RATE, **options)


def torch_course(name, start, gradients, **options):
    """Parameters and states after all steps: the first half decays, the second is a group without, at half the rate."""
    half = COUNT // 2
    parts = [start[:half].clone().requires_grad_(), start[half:].clone().requires_grad_()]
    optimizer = make_optimizer(name, [{"params": parts[0], "weight_decay": DECAY},
                                      {"params": parts[1], "weight_decay": 0, "lr": 0.5 * RATE}], **options)
    for gradient in gradients:
        scaled = gradient * GRAD_SCALE  # a power of two: exact
        parts[0].grad, parts[1].grad = scaled[:half].clone(), scaled[half:].clone()
        optimizer.step()
    states = [torch.cat([optimizer.state[p][state] for p in parts]) for state in STATES[name]]
    return [torch.cat([p.detach() for p in parts]), *states]


def our_course(name, start, gradients):
    momentum = 0.9 if name == "momentum" else 0
    dtype = str(start.dtype).removeprefix("torch.")
    output = probe("optimizer", "sgd" if name == "momentum" else name, dtype, STEPS, COUNT, RATE, GRAD_SCALE, DECAY,
                   momentum, data=start.numpy().tobytes() + gradients.numpy().tobytes())
    return list(torch.from_numpy(numpy.frombuffer(output, start.numpy().dtype).copy()).view(-1, COUNT))


def distances(course, exact):
    return [(a.double() - b).abs().max().item() for a, b in zip(course, exact, strict=True)]


class Optimizers(unittest.TestCase):
    def setUp(self):
        generator = torch.Generator().manual_seed(1)
        self.start = torch.randn(COUNT, generator=generator)
        self.gradients = torch.randn(STEPS, COUNT, generator=generator)

    def test_equal_torch_step_for_step(self):
        for name in STATES:
            exact = torch_course(name, self.start.double(), self.gradients.double(), foreach=False)
            rounding = distances(torch_course(name, self.start, self.gradients, foreach=False), exact)
            single = distances(our_course(name, self.start, self.gradients), exact)
            double = distances(our_course(name, self.start.double(), self.gradients.double()), exact)
            print(f"{name}: from the exact course, torch {rounding}, ours {single}, in float64 {double}")
            for torch_off, ours, ours_double in zip(rounding, single, double, strict=True):
                with self.subTest(name):
                    self.assertLess(torch_off, 1e-4, "rounding hides what is to be seen")
                    self.assertLessEqual(ours, ALLOWANCE * torch_off)
                    self.assertLessEqual(ours_double, ALLOWANCE * torch_off * 2.0**-29)

    def test_equal_torchs_fused_ones(self):
        for name in ("sgd", "momentum", "adam", "adamw"):
            exact = torch_course(name, self.start.double(), self.gradients.double(), foreach=False)
            rounding = distances(torch_course(name, self.start, self.gradients, foreach=False), exact)
            fused = torch_course(name, self.start, self.gradients, fused=True)
            ours = our_course(name, self.start, self.gradients)
            for a, b, torch_off in zip(ours, fused, rounding, strict=True):
                with self.subTest(name):
                    # Each is at most ALLOWANCE times the rounding from the exact course.
                    self.assertLessEqual((a - b).abs().max().item(), 2 * ALLOWANCE * torch_off)


def torch_rates(make, steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


class Schedules(unittest.TestCase):
    TOTAL, WARMUP = 60, 7

    def ours(self, text, warmup=WARMUP, epoch_steps=1000):
        return numbers(probe("schedule", text, RATE, self.TOTAL, warmup, epoch_steps))

    def check(self, ours, expected):
        self.assertEqual(len(ours), len(expected))
        for step, (a, b) in enumerate(zip(ours, expected)):
            # torch multiplies the rate it has, step for step: a rounding of RATE each.
            self.assertLessEqual(abs(a - b), 4 * (step + 1) * RATE * 2.0**-53, f"step {step}: {a} and {b}")

    def after_warm_up(self, then):
        def make(optimizer):
            warm = lr_scheduler.LinearLR(optimizer, start_factor=1 / self.WARMUP, total_iters=self.WARMUP - 1)
            return lr_scheduler.SequentialLR(optimizer, [warm, then(optimizer)], milestones=[self.WARMUP])
        return torch_rates(make, self.TOTAL)

    def test_warm_up_and_cosine_are_torchs(self):
        rest = self.TOTAL - self.WARMUP
        for least in (0, 0.1):
            self.check(self.ours(f"cosine:{least}"), self.after_warm_up(
                lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=rest, eta_min=least * RATE)))

    def test_linear_and_constant_are_torchs(self):
        rest = self.TOTAL - self.WARMUP
        self.check(self.ours("linear:0.2"), self.after_warm_up(
            lambda o: lr_scheduler.LinearLR(o, start_factor=1, end_factor=0.2, total_iters=rest)))
        self.check(self.ours("constant"), self.after_warm_up(
            lambda o: lr_scheduler.ConstantLR(o, factor=1, total_iters=0)))

    def test_steps_are_torchs_to_the_last_bit(self):
        by_epoch = torch_rates(lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.7), self.TOTAL // 4)
        self.assertEqual(self.ours("step:2:0.7", warmup=0, epoch_steps=4), [r for r in by_epoch for _ in range(4)])

    @unittest.skipIf(transformers is None, "no transformers")
    def test_once_warm_the_rates_are_those_of_transformers(self):
        for text, make in (("cosine", transformers.get_cosine_schedule_with_warmup),
                           ("linear", transformers.get_linear_schedule_with_warmup)):
            theirs = torch_rates(lambda o: make(o, self.WARMUP, self.TOTAL), self.TOTAL)
            ours = self.ours(text)
            self.check(ours[self.WARMUP:], theirs[self.WARMUP:])
            self.check(ours[:self.WARMUP], theirs[1:self.WARMUP + 1])  # whose warm-up is one step behind
            self.assertEqual(theirs[0], 0)


class ExactSums(unittest.TestCase):
    """The whole range of both types, against rational numbers."""

    def sum_of(self, values, kind):
        return numbers(probe("sum", {"f": "float32", "d": "float64"}[kind],
                             data=struct.pack(f"={len(values)}{kind}", *values)))[0]

    @staticmethod
    def finite(pattern, kind):
        value = struct.unpack("=" + kind, pattern)[0]
        return value if math.isfinite(value) else 0.0

    def test_sums_are_correctly_rounded(self):
        draw = random.Random(1)
        for round_ in range(40):
            for kind, size in (("f", 4), ("d", 8)):
                values = [self.finite(draw.randbytes(size), kind) for _ in range(300)]
                # Squares of all sizes, the least included; those too large for a double are another test's.
                values = [v if abs(v) < 1e150 else math.ldexp(math.frexp(v)[0], draw.randint(-560, 480)) for v in values]
                exact = sum(fractions.Fraction(v * v) for v in values)
                self.assertEqual(self.sum_of(values, kind), float(exact), f"round {round_}")

    def test_cancelling_sizes(self):
        for values in ([2.0**27, 1.0, 2.0**-537], [2.0**27, 1.0, 1.0, 2.0**-537], [1e-160] * 7, [0.1] * 1000):
            exact = sum(fractions.Fraction(v * v) for v in values)
            self.assertEqual(self.sum_of(values, "d"), float(exact))


class Scaler(unittest.TestCase):
    def test_follows_gradscaler(self):
        draw = random.Random(2)
        finite = [draw.random() > 0.0004 for _ in range(15000)] + [False] * 12 + [True] * 4100
        scaler = torch.amp.GradScaler("cpu")
        parameter = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([parameter], lr=0.0)
        theirs = []
        for good in finite:
            parameter.grad = torch.tensor([1.0 if good else math.inf])
            scaler.scale(torch.ones(()))  # makes the scale's tensor
            scaler.step(optimizer)
            scaler.update()
            theirs.append(scaler.get_scale())
        ours = numbers(probe("scaler", data="".join("01"[good] for good in finite).encode()))
        self.assertEqual(ours, theirs)
        self.assertGreater(len(set(ours)), 8, "the scale never moved")


if __name__ == "__main__":
    PROBE = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
