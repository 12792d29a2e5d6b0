"""GPT-2, Llama and BERT of the transformers library, exported as TorchScript, train in shoal as in Python's FSDP2.

script_training_test.py SCRIPT_TRAINING SOURCE_FOLDER LAUNCHER…        LAUNCHER… N starts N ranks

scripts/export_model.py writes a file from the same random weights that Python's fully_shard() starts from. Both train
on the same batches, with dropout whose masks are drawn from the same seeds, wrapped by the same classes. How near is
near enough is measured: Python trains in float32 and in float64; what float32 is away from float64 is the effect of
rounding, and shoal, which may add in another order, may be ALLOWANCE times as far away. In bfloat16 no two programs
round alike; there shoal may be as far from Python's bfloat16 as ALLOWANCE times that is from float32.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

sys.dont_write_bytecode = True  # the source folder stays as it is
sys.path.append(str(pathlib.Path(sys.argv[2]) / "scripts"))
import export_model
import script_fsdp

RANKS = (1, 2)
ALLOWANCE = 10
PROGRAM = LAUNCHER = None


class Run:
    """The exported model trained by shoal."""

    def __init__(self, folder, kind, ranks, dtype):
        output = folder / f"{kind}_{ranks}_{dtype}.weights"
        command = [*LAUNCHER, ranks, PROGRAM, folder / f"{kind}.pt", folder / f"{kind}.batches", script_fsdp.STEPS,
                   script_fsdp.BATCH, script_fsdp.LENGTH, script_fsdp.RATE, dtype, output]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr}")
        *losses, evaluation = done.stdout.splitlines()
        self.losses, self.evaluation = list(map(float, losses)), list(map(float, evaluation.split()))
        self.weights = torch.load(output, weights_only=False)  # a dict of TorchScript, from this test's program
        self.modules = done.stderr


class ScriptTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        scratch = tempfile.TemporaryDirectory(prefix="shoal_script_training_")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        for kind in script_fsdp.CONFIGS:
            model = script_fsdp.make_model(kind)
            export_model.export_transformers(model, cls.folder / f"{kind}.pt", masked=kind == "bert")
            script_fsdp.write_batches(kind, cls.folder / f"{kind}.batches")
        jobs = [(kind, dtype) for kind in script_fsdp.CONFIGS for dtype in ("fp32", "fp64", "bf16")]
        cls.shoal = {job: Run(cls.folder, *job) for kind in script_fsdp.CONFIGS
                     for job in ((kind, 1, "fp32"), (kind, 2, "fp32"), (kind, 2, "bf16"))}
        cls.python = {ranks: script_fsdp.train(cls.folder, ranks, jobs) for ranks in RANKS}

    def compare(self, name, ours, single, exact):
        rounding, distance = (max(abs(a - b) for a, b in zip(some, exact)) for some in (single, ours))
        print(f"{name}: Python {rounding:.1e}, shoal {distance:.1e}")
        self.assertEqual(len(ours), len(exact))
        self.assertLess(rounding, 1e-3, "rounding hides what is to be seen")
        self.assertLessEqual(distance, ALLOWANCE * rounding)

    def check_weights(self, ours, single, exact):
        """As far from float64 as Python is, in the norm of all of a model's weights."""
        known = {name: value.double() for name, value in exact.items()}
        distances = [sum((some[name].double() - known[name]).square().sum() for name in known).sqrt().item()
                     for some in (single, ours)]
        print(f"  weights: Python {distances[0]:.1e}, shoal {distances[1]:.1e}")
        self.assertLessEqual(distances[1], ALLOWANCE * distances[0])

    def test_losses_evaluation_and_weights(self):
        for kind in script_fsdp.CONFIGS:
            for ranks in RANKS:
                with self.subTest(kind, ranks=ranks):
                    ours = self.shoal[kind, ranks, "fp32"]
                    single, exact = (self.python[ranks][kind, dtype] for dtype in ("fp32", "fp64"))
                    self.assertLess(exact[0][-1], exact[0][0] - 0.5, "nothing was learned")
                    self.compare(f"{kind} on {ranks} ranks, losses", *(
                        losses + [loss_sum / count] for losses, (loss_sum, _, count) in (
                            (ours.losses, ours.evaluation), single[:2], exact[:2])))
                    self.assertEqual(ours.evaluation[1:], exact[1][1:])
                    self.check_weights(ours.weights, single[2], exact[2])

    def test_names_and_classes_are_those_of_python(self):
        for kind in script_fsdp.CONFIGS:
            with self.subTest(kind):
                ours, model = self.shoal[kind, 2, "fp32"], script_fsdp.make_model(kind)
                self.assertEqual(set(ours.weights), set(model.state_dict()), "the names of the checkpoint")
                self.assertEqual(ours.modules.count("[FSDP unit"), 3, "two blocks and the root")
                self.assertIn(f": {script_fsdp.BLOCKS[kind]}  [FSDP unit", ours.modules)
                self.assertIn(type(model).__name__, ours.modules)

    def test_bfloat16_parameters(self):
        for kind in script_fsdp.CONFIGS:
            with self.subTest(kind):
                ours = self.shoal[kind, 2, "bf16"]
                full, mixed = (self.python[2][kind, dtype][0] for dtype in ("fp32", "bf16"))
                rounding = max(abs(a - b) for a, b in zip(mixed, full))
                distance = max(abs(a - b) for a, b in zip(ours.losses, mixed))
                print(f"{kind}, bf16: Python from fp32 {rounding:.1e}, shoal from Python {distance:.1e}")
                self.assertLessEqual(distance, ALLOWANCE * rounding)
                self.assertNotEqual(ours.losses, full)


if __name__ == "__main__":
    PROGRAM, LAUNCHER = sys.argv[1], sys.argv[3:]
    unittest.main(argv=sys.argv[:1])
