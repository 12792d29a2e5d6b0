"""Our tokens beside those of Hugging Face's GPT-2 tokenizer, and our samples beside NumPy's of the same files.

Usage: tokens_interop_test.py SHOAL_TOKENIZE DUMP_SAMPLES VOCAB_BPE TEXT.gz
"""
import gzip
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
    import tokenizers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOKENIZE, DUMP, VOCAB, TEXT = sys.argv[1:5]
MASK64 = (1 << 64) - 1


def printable_bytes():
    """GPT-2's alphabet: (character, byte) in the order of the tokens."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(0x100 + i) for i in range(len(others))]


def gpt2_tokenizer():
    lines = pathlib.Path(VOCAB).read_text(encoding="utf-8").splitlines()[1:]
    merges = [tuple(line.split(" ")) for line in lines if line]
    vocab = {token: i for i, token in enumerate(printable_bytes() + ["".join(pair) for pair in merges])}
    vocab["<|endoftext|>"] = len(vocab)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def hash_combine(a, b):
    return mix64(a ^ mix64(b))


def hash_string(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK64
    return mix64(h)


def mask_tokens(tokens, epoch, sample, seed, vocab_size, mask_token, probability=0.15, special=()):
    """As docs/data.md gives it."""
    key = hash_combine(hash_string("masked tokens"), seed)
    key = hash_combine(hash_combine(key, epoch), sample)
    inputs, targets = list(tokens), [-100] * len(tokens)
    for place, token in enumerate(tokens):
        drawn = (hash_combine(key, 3 * place) >> 11) * 2.0**-53
        if drawn >= probability or token == mask_token or token in special:
            continue
        targets[place] = token
        tenth = (hash_combine(key, 3 * place + 1) * 10) >> 64
        if tenth < 8:
            inputs[place] = mask_token
        elif tenth == 8:
            inputs[place] = (hash_combine(key, 3 * place + 2) * vocab_size) >> 64
    return inputs, targets


class InFolder(unittest.TestCase):
    def setUp(self):
        self.held = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.held.name)

    def tearDown(self):
        self.held.cleanup()


class Gpt2Tokens(InFolder):
    @classmethod
    def setUpClass(cls):
        cls.oracle = gpt2_tokenizer()

    def ours(self, text):
        path = self.folder / "text.txt"
        path.write_bytes(text.encode("utf-8"))
        out = self.folder / "tokens.bin"
        subprocess.run([TOKENIZE, "--text", path, "--output", out, "--force"], check=True, capture_output=True)
        return np.fromfile(out, dtype="<u2").tolist()

    def check(self, text):
        ours, theirs = self.ours(text), self.oracle.encode(text).ids
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            near = self.oracle.decode(theirs[max(0, at - 5):at + 5], skip_special_tokens=False)
            self.fail(f"token {at} differs, near {near!r}: {ours[at:at + 5]} {theirs[at:at + 5]}")

    def test_a_book(self):
        with gzip.open(TEXT, "rt", encoding="utf-8", newline="") as file:
            self.check(file.read())

    def test_every_character_beside_letters_numbers_signs_and_spaces(self):
        # Beyond U+32000 almost nothing is assigned: some stand for all.
        points = [p for p in range(1, 0x32000) if not 0xD800 <= p < 0xE000] + [*range(0x32000, 0x110000, 211)]
        for begin in range(0, len(points), 1 << 16):
            self.check("".join(f"a{chr(p)}b 1{chr(p)}2 .{chr(p)}, {chr(p)} {chr(p)}{chr(p)}\n"
                               for p in points[begin:begin + (1 << 16)]))

    def test_random_text(self):
        draw = random.Random(1)
        parts = ["'s", "'ll", "'LL", "'", "''ve", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "word", " Word",
                 "don't", "42", "1,000.5", "\u00bd", "\u0663", "\u6c34\u706b", "\u3053\u3093", "\ud55c\uad6d", "e\u0301", "\u200d",
                 "\U0001f469\u200d\U0001f52c", "\U0001f1e9\U0001f1ea", "\ufe0f", "\u0e01\u0e33", "\u0915\u094d\u0937", "\ufeff",
                 "\ufffd", "\x00", "\x1c", "\x85", "<|endoftext|>", "<|endof", "text|>", "#include <a>", "_", "-" * 20, "=" * 7]
        for _ in range(30):
            self.check("".join(draw.choice(parts) for _ in range(6000)))
        for _ in range(20):
            self.check("".join(chr(draw.choice([draw.randrange(1, 0x80), draw.randrange(0x80, 0x3000),
                                                draw.randrange(0x3000, 0xD800), draw.randrange(0x10000, 0x20000)]))
                               for _ in range(5000)))

    def test_long_runs(self):
        for run in (" ", "\n", "\t", "\u3000", "a", "ab", "1", "!", "\u0301", "\U0001f600", "\u6c34"):
            self.check("".join(run * count + "x" + run * count + "y " for count in (1, 2, 3, 100, 5000)) + run * 70)

    def test_parts_of_a_large_text_are_the_whole(self):
        with gzip.open(TEXT, "rt", encoding="utf-8", newline="") as file:
            text = file.read()
        # Three times the part that is read at once, with spaces around its ends.
        self.check(text + " " * 700000 + "x" + "\n" * 300000 + text * 5 + "<|endoftext|>" * 50000)


class Samples(InFolder):
    LENGTH, VOCAB = 16, 1000

    def setUp(self):
        super().setUp()
        self.tokens = np.random.default_rng(2).integers(0, self.VOCAB - 1, size=1000)

    def dump(self, kind, path, epoch=0):
        done = subprocess.run([DUMP, kind, path, str(self.LENGTH), str(self.VOCAB), str(epoch)], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]

    def expect_tokens(self, path):
        n = (len(self.tokens) - 1) // self.LENGTH
        expected = [[*self.tokens[i * self.LENGTH:(i + 1) * self.LENGTH],
                     *self.tokens[i * self.LENGTH + 1:(i + 1) * self.LENGTH + 1]] for i in range(n)]
        self.assertEqual(self.dump("causal", path), expected)

    def test_plain(self):
        path = self.folder / "train.bin"
        self.tokens.astype("<u2").tofile(path)
        self.expect_tokens(path)

    def test_llmc(self):
        for dtype, magic, version in (("<u2", 20240520, 1), ("<u4", 20240801, 7)):
            header = np.zeros(256, dtype="<i4")
            header[:3] = magic, version, len(self.tokens)
            path = self.folder / "train.bin"
            path.write_bytes(header.tobytes() + self.tokens.astype(dtype).tobytes())
            self.expect_tokens(path)

    def test_megatron(self):
        lengths = [300, 1, 699]
        for dtype, code in (("<u2", 8), ("<i4", 4), ("<i8", 5)):
            prefix = self.folder / f"data_{code}"
            self.tokens.astype(dtype).tofile(f"{prefix}.bin")
            offsets = np.cumsum([0, *lengths[:-1]]) * np.dtype(dtype).itemsize
            with open(f"{prefix}.idx", "wb") as index:
                index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1))
                index.write(np.array(lengths, "<i4").tobytes() + offsets.astype("<i8").tobytes())
                index.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())
            self.expect_tokens(prefix)

    def test_hdf5(self):
        layouts = [("<u2", {}), ("<i4", {"chunks": (64,)}), ("<u4", {"chunks": (100,), "compression": "gzip"}),
                   (">i8", {}), (">u2", {"chunks": (7,), "shuffle": True}), ("<i8", {}), ("<u8", {"chunks": (1000,)}),
                   ("<i2", {})]
        for number, (dtype, options) in enumerate(layouts):
            path = self.folder / f"{number}.h5"
            with h5py.File(path, "w") as file:
                file.create_dataset("a/b/tokens", data=self.tokens.astype(dtype), **options)
                file.create_dataset("scores", data=np.zeros(5))  # no integers
                file.create_dataset("table", data=np.zeros((2, 3), dtype="i4"))  # no row
                file.attrs["note"] = "text"
            with self.subTest(dtype=dtype, **options):
                self.expect_tokens(path)

    def test_hdf5_with_two_rows_or_none(self):
        for rows, words in ((0, "0 datasets of integers"), (2, "2 datasets of integers")):
            path = self.folder / f"{rows}.h5"
            with h5py.File(path, "w") as file:
                for row in range(rows):
                    file[f"row{row}"] = self.tokens
            done = subprocess.run([DUMP, "causal", path, "4", "1000", "0"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3)
            self.assertIn(words, done.stderr)

    def test_written_by_tokenize(self):
        text = self.folder / "text.txt"
        text.write_bytes(bytes(self.tokens % 128 + 1))
        self.tokens = np.frombuffer(text.read_bytes(), dtype="u1").astype(int)
        for name, form in (("a.bin", "plain"), ("b.bin", "llmc"), ("c.bin", "megatron"), ("d.h5", "hdf5")):
            subprocess.run([TOKENIZE, "--text", text, "--output", self.folder / name, "--format", form, "--tokenizer",
                            "bytes"], check=True, capture_output=True)
            self.expect_tokens(self.folder / name)
        with h5py.File(self.folder / "d.h5") as file:
            np.testing.assert_array_equal(file["tokens"][:], self.tokens)

    def test_masks(self):
        path = self.folder / "train.bin"
        self.tokens.astype("<u2").tofile(path)
        for epoch in (0, 7):
            expected = []
            for i in range(len(self.tokens) // self.LENGTH):
                part = self.tokens[i * self.LENGTH:(i + 1) * self.LENGTH].tolist()
                inputs, targets = mask_tokens(part, epoch, i, 3, self.VOCAB, self.VOCAB - 1)
                expected.append(inputs + targets)
            self.assertEqual(self.dump("masked", path, epoch), expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
