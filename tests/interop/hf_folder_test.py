"""Checkpoints of the built-in GPT-2, Llama and BERT become folders that transformers loads, and the models that it makes
of them are those of the options that shoal was given: no name missing or left over, equal logits.

hf_folder_test.py SHOAL TEXT.gz
"""
import gzip
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
import transformers_logits_test as models

SHOAL = TEXT = None
CASES = {
    "gpt2": lambda: models.gpt2(2, 4, 48, 256, inner=100),
    "gpt2, untied": lambda: models.gpt2(1, 2, 32, 256, inner=40, tied=False),
    "llama": lambda: models.llama(2, 8, 2, 64, 112, 256, scaling=8, tied=False),
    "llama, tied": lambda: models.llama(1, 4, 4, 32, 48, 256, theta=10000.0),
    "bert": lambda: models.bert(2, 4, 48, 96, 300),
}


def call(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Folders(unittest.TestCase):
    def folder_of(self, scratch, name, options):
        flags = []
        for option, value in options.items():
            flags += [f"--{option}"] if value is True else [] if value is False else [f"--{option}", value]
        call(SHOAL, "train", "--model", name, *flags, "--dropout", 0, "--data", scratch / "text.txt", "--tokenizer",
             "bytes", "--sequence-length", 32, "--global-batch-size", 4, "--max-steps", 1, "--threads", 1,
             "--checkpoint-dir", scratch / "checkpoints")
        folder = scratch / "folder"
        call(SHOAL, "ckpt", "export", scratch / "checkpoints", "--output", folder, "--format", "safetensors",
             "--max-shard-size", "100KB")
        call(SHOAL, "ckpt", "export", scratch / "checkpoints", "--output", scratch / "model.pt")
        return folder

    def test_logits(self):
        for case, make in CASES.items():
            with self.subTest(case), tempfile.TemporaryDirectory(prefix="shoal_hf_") as scratch:
                scratch = pathlib.Path(scratch)
                (scratch / "text.txt").write_bytes(gzip.decompress(TEXT.read_bytes())[:20000])
                name, options, ours = make()  # of their own configuration
                folder = self.folder_of(scratch, name, options)
                loaded, info = type(ours).from_pretrained(folder, output_loading_info=True)
                self.assertEqual((len(info["missing_keys"]), len(info["unexpected_keys"])), (0, 0), info)
                ours.load_state_dict(torch.load(scratch / "model.pt", weights_only=True))
                inputs = torch.randint(256, (2, 32))
                with torch.no_grad():
                    self.assertTrue(torch.equal(loaded.eval()(inputs).logits, ours.eval()(inputs).logits))


if __name__ == "__main__":
    SHOAL, TEXT = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
