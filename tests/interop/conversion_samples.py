"""Tensors of every element type, shape and name for tests of conversions, and a checkpoint of them."""
import json
import shutil
import subprocess

import h5py
import numpy as np
import torch

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, *FLOAT8, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]
SHAPES = [(), (1,), (0,), (3, 0, 2), (7,), (5, 3), (2, 1, 3, 1, 2, 1, 2), (1, 1), (257,), (13, 11, 3)]
NAMES = ["weight", "a/b", "h.0.attn.c_attn.weight", "ключ.вес", "重み", "with space", "per%cent", "q\"uote\\", "x" * 1000,
         "emoji🐟", "UPPER.lower", ".hidden", "0", "a..b", "tab\tname"]


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(raw(a), raw(b))


def random_tensor(dtype, shape, generator):
    """Any pattern of bits, NaNs with payloads and subnormals included."""
    numel = int(np.prod(shape, dtype=np.int64))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator, dtype=torch.uint8).bool()
    data = torch.randint(0, 256, (numel * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    return data.view(dtype).reshape(shape) if numel else torch.empty(shape, dtype=dtype)


def as_torch(dataset):
    """A dataset of h5py. It reads bfloat16 (described bit by bit) as float32, without loss but for NaNs' payloads, and
    floats of 8 bits as bytes, an enumeration whose one member bears the type's name."""
    kind = dataset.id.get_type()
    names = h5py.check_enum_dtype(dataset.dtype)
    if names:
        return torch.from_numpy(np.array(dataset[()])).view(getattr(torch, *names))
    if kind.get_class() == h5py.h5t.FLOAT and kind.get_size() == 2 and kind.get_fields()[2] == 8:  # bits of the exponent
        bits = np.empty(dataset.shape, np.int16)
        if bits.size:
            bits = np.fromfile(dataset.file.filename, np.int16, bits.size, offset=dataset.id.get_offset())
        return torch.from_numpy(bits.reshape(dataset.shape)).view(torch.bfloat16)
    return torch.from_numpy(np.array(dataset[()]))


def read_hdf5(path):
    with h5py.File(path) as file:
        return {name.replace("%2F", "/").replace("%2E", ".").replace("%25", "%"): as_torch(file[name]) for name in file}


def save(make, folder, state, optimizer=None, aliases=(), ranks=3, training_state=None, uncut=()):
    """FOLDER/ckpt, by the program make_from_description. `state`: name → tensor; `optimizer`: (state, name) → tensor."""
    all_tensors = [("model/" + name, tensor) for name, tensor in state.items()]
    all_tensors += [(f"optimizer/{kind}/{name}", tensor) for (kind, name), tensor in (optimizer or {}).items()]
    tensors, data = [], b""
    for name, tensor in all_tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        cut = tensor.dtype.is_floating_point and name.removeprefix("model/") not in uncut
        tensors.append({"name": name, "dtype": dtype, "shape": list(tensor.shape), "offset": len(data),
                        "unit": f"{name.split('/')[0]}-{dtype}" if cut else ""})
        data += raw(tensor.detach()).numpy().tobytes()
    with open(folder + "/state", "w") as file:
        json.dump({"step": 7, "ranks": ranks, "training_state": training_state or {"step": 7}, "tensors": tensors,
                   "aliases": [["model/" + alias, "model/" + name] for alias, name in aliases]}, file)
    with open(folder + "/state.bin", "wb") as file:
        file.write(data)
    shutil.rmtree(folder + "/ckpt", ignore_errors=True)
    subprocess.run([make, folder + "/ckpt", folder + "/state"], check=True, stdout=subprocess.DEVNULL)
