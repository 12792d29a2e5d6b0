"""The same training job by shoal and by PyTorch: losses, weights, optimizer state and test results agree.

pytorch_same_job_test.py SHOAL MNIST_FOLDER LAUNCHER…        LAUNCHER… N starts N ranks

The job is chaotic: where a ReLU or a maximum flips, runs that agreed to 1e-7 are 1e-2 apart ten steps later, also two
runs of PyTorch. So PyTorch follows shoal's run from checkpoint to checkpoint, a few steps at a time, each time from
shoal's weights and optimizer state, and at a tenth of the model's learning rate. At the rate itself, the first steps
are compared.

How near is near enough is measured. PyTorch follows in float32 and in float64, with the same dropout masks; what
float32 is away from float64 is the effect of rounding, and shoal, which may add in another order, may be ALLOWANCE
times as far away. Since a single flip more or less is luck, that holds for the piece of the run in the middle of the
ranking; the worst one may be off by what a flip does. A wrong rate or divisor shows in every piece (gamma 0.69 for 0.7
comes out a thousand times too far), a wrong sample or mask moves losses by 1e-2 and tensors by a tenth of their change.
"""
import copy
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

sys.dont_write_bytecode = True  # the source folder stays as it is
import mnist_fsdp
import mnist_job
from mnist_job import Net

STEPS, PIECE = 48, 6  # nearly three epochs, three learning rates; steps from checkpoint to checkpoint
RATE = 0.1
RANKS = (1, 2)
ALLOWANCE = 10
FLIP_IN_LOSS, FLIP_IN_TENSOR = 1e-3, 3e-2  # the latter as a part of what a piece of the run changes
STATES = ("square_avg", "acc_delta")
SHOAL = MNIST = LAUNCHER = None


class Run:
    """A run of `shoal train` and what it left. A state is a dict of tensors: "model/NAME", "square_avg/NAME", …."""

    def __init__(self, folder, data, ranks, *options):
        self.folder = folder
        command = [*LAUNCHER, str(ranks), SHOAL, "train", "--model", "mnist-net", "--data", data, "--threads", "1",
                   "--seed", mnist_job.SEED, "--global-batch-size", mnist_job.GLOBAL_BATCH, "--log-every", 1,
                   "--checkpoint-dir", folder, "--checkpoint-every", PIECE, "--keep", 100, "--output", "none", *options]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
        self.losses = [float(loss) for loss in re.findall(r"step \d+ .* loss ([\d.]+)", done.stdout)]
        self.correct = int(re.findall(r"test accuracy [\d.]+ % \((\d+)/1000\)", done.stdout)[-1])

    def consolidate(self, checkpoint, output, *options):
        subprocess.run([SHOAL, "ckpt", "consolidate", checkpoint, "--output", output, *options], check=True,
                       stdout=subprocess.DEVNULL)
        return output

    def weights(self):
        """The newest, by way of a .pt file."""
        return torch.load(self.consolidate(self.folder, self.folder / "weights.pt", "--force"), weights_only=True)

    def state_after(self, steps):
        checkpoint = self.folder / f"step_{steps:08}"
        with h5py.File(self.consolidate(checkpoint, f"{checkpoint}.h5", "--with-optimizer")) as file:
            groups = {"model": file, **file["optimizer"]}
            return {f"{kind}/{name}": torch.from_numpy(values[()]) for kind, group in groups.items()
                    for name, values in group.items() if isinstance(values, h5py.Dataset)}


def state_of(trainer):
    states = {f"model/{name}": parameter.detach().clone() for name, parameter in trainer.net.named_parameters()}
    for name, parameter in trainer.net.named_parameters():
        states |= {f"{kind}/{name}": trainer.optimizer.state[parameter][kind].clone() for kind in STATES}
    return states


def adopt(trainer, state):
    with torch.no_grad():
        for name, parameter in trainer.net.named_parameters():
            parameter.copy_(state[f"model/{name}"])
            for kind in STATES:
                trainer.optimizer.state[parameter][kind].copy_(state[f"{kind}/{name}"])


class Follower:
    """PyTorch on the way from each of the run's states to the next: its losses, and its own states at the ends."""

    def __init__(self, net, data, ranks, states):
        trainer = mnist_job.Trainer(net, RATE)
        self.losses, self.states = [], []
        for i in range(STEPS // PIECE):
            if i > 0:
                adopt(trainer, states[i - 1])
            self.losses += mnist_job.train(trainer, data, ranks, PIECE)
            self.states.append(state_of(trainer))


class SameJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        scratch = tempfile.TemporaryDirectory(prefix="shoal_same_job_")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.data = mnist_job.write_smaller_data(MNIST, cls.folder / "data")
        # A rate of 0 leaves the initial weights as they are.
        cls.start = Run(cls.folder / "start", cls.data, 1, "--max-steps", 1, "--lr", 0)
        cls.initial = Net()
        cls.initial.load_state_dict(cls.start.weights())
        cls.runs = {n: Run(cls.folder / f"on{n}", cls.data, n, "--max-steps", STEPS, "--lr", RATE) for n in RANKS}
        cls.states = {n: [run.state_after(step) for step in range(PIECE, STEPS + 1, PIECE)]
                      for n, run in cls.runs.items()}
        inputs, targets = mnist_job.read_split(cls.data, "train")
        cls.samples = {dtype: (inputs.to(dtype), targets) for dtype in (torch.float32, torch.float64)}
        cls.followers, cls.exact = (
            {n: Follower(cls.initial_net(dtype), samples, n, cls.states[n]) for n in RANKS}
            for dtype, samples in cls.samples.items())

    @classmethod
    def initial_net(cls, dtype):
        return copy.deepcopy(cls.initial).to(dtype)

    def check_losses(self, losses, single, exact):
        self.assertEqual(len(losses), len(exact))
        rounding, compared = (max(abs(a - b) for a, b in zip(some, exact)) for some in (single, losses))
        print(f"largest distance of a loss from the exact one: PyTorch {rounding:.1e}, compared run {compared:.1e}")
        self.assertLess(rounding, 1e-3, "rounding hides what is to be seen")
        self.assertLessEqual(compared, max(ALLOWANCE * rounding, FLIP_IN_LOSS))

    def distances(self, states, ranks):
        """Each tensor's distances from the exact one, as parts of what a piece of the run has changed in it."""
        start = {f"model/{name}": parameter for name, parameter in self.initial.state_dict().items()}
        found = {name: [] for name in states[0]}
        for before, compared, exact in zip([start, *self.states[ranks]], states, self.exact[ranks].states):
            for name, distances in found.items():
                change = (exact[name] - before.get(name, 0)).norm()
                distances.append(((compared[name] - exact[name]).norm() / change).item())
        return found

    def test_initial_weights_follow_the_documented_formula(self):
        for name, parameter in self.initial.state_dict().items():
            with self.subTest(name):
                self.assertTrue(torch.equal(parameter, mnist_job.initial_weights(name, parameter)))

    def test_losses(self):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                losses = self.runs[ranks].losses
                self.assertLess(sum(losses[-5:]), sum(losses[:5]) / 2, "nothing was learned")
                self.check_losses(losses, self.followers[ranks].losses, self.exact[ranks].losses)

    def test_weights_and_optimizer_state(self):
        names = {f"{kind}/{name}" for kind in ("model", *STATES) for name in self.initial.state_dict()}
        for ranks in RANKS:
            rounding = self.distances(self.followers[ranks].states, ranks)
            ours = self.distances(self.states[ranks], ranks)
            self.assertEqual(set(ours), names)
            for name in sorted(names):
                with self.subTest(name, ranks=ranks):
                    typical, our_typical = statistics.median(rounding[name]), statistics.median(ours[name])
                    print(f"{ranks} ranks, distance of {name}: "
                          f"PyTorch {typical:.1e}, at most {max(rounding[name]):.1e}; "
                          f"shoal {our_typical:.1e}, at most {max(ours[name]):.1e}")
                    self.assertLess(typical, 3e-3, "rounding hides what is to be seen")
                    self.assertLessEqual(our_typical, ALLOWANCE * typical)
                    self.assertLessEqual(max(ours[name]), FLIP_IN_TENSOR)

    def test_consolidated_weights_give_the_same_accuracy(self):
        inputs, targets = mnist_job.read_split(self.data, "t10k")
        for run in (self.start, *self.runs.values()):
            net = Net()
            net.load_state_dict(run.weights(), strict=True)
            with torch.no_grad():
                output = net.eval()(inputs)
            best = output.topk(2).values
            undecided = (best[:, 0] - best[:, 1] < 1e-4).sum().item()
            correct = (output.argmax(1) == targets).sum().item()
            print(f"correct of 1000: shoal {run.correct}, PyTorch {correct}, undecided {undecided}")
            self.assertLessEqual(abs(correct - run.correct), undecided)

    def test_pytorch_fsdp_at_the_rate_of_the_model(self):
        single, exact = (mnist_job.train(mnist_job.Trainer(self.initial_net(dtype)), samples, ranks=2, steps=PIECE)
                         for dtype, samples in self.samples.items())
        run = Run(self.folder / "first_steps", self.data, 2, "--max-steps", PIECE)
        self.check_losses(run.losses, single, exact)
        fsdp = mnist_fsdp.train(self.folder, self.initial, self.data, ranks=2, steps=PIECE)
        self.check_losses(fsdp, single, exact)


if __name__ == "__main__":
    SHOAL, MNIST, LAUNCHER = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    unittest.main(argv=sys.argv[:1])
