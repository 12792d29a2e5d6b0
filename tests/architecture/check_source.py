#!/usr/bin/env python3
"""Checks what the compiler does not: which layer may include which, where third-party headers may be used, sizes,
that links between documents lead somewhere, and that the documents tell of every layer.

Usage: check_source.py ROOT                     prints each offence as FILE:LINE: reason; exit code 1 where there is one
       check_source.py ROOT --plain-headers     lists the headers of src/ that include nothing of LibTorch or CUDA
"""
import pathlib
import re
import sys

# The layers in levels: a layer includes itself and what lies in levels below it.
LEVELS = [
    ["core"],
    ["shard", "launch", "hdf5", "formats", "kernels", "configs"],
    ["comm", "optim"],
    ["fsdp", "checkpoint", "preflight", "report", "fused", "models", "data"],
    ["train"],
    ["apps"],
]
LEVEL = {layer: level for level, layers in enumerate(LEVELS) for layer in layers}
# Within a level nobody includes a neighbour, but for these: several speak of element types and shards, and a model
# knows what its samples are.
NEIGHBOURS = {(user, "shard") for user in ("launch", "hdf5", "formats", "kernels")} | {("models", "data"), ("models", "fused")}

# Third-party headers and the only layers that may include them.
TORCH = re.compile(r"^(torch|ATen|c10)/")
CUDA = re.compile(r"^(cuda|cublas|nccl)\w*\.h$")  # not on every machine that builds
CONFINED = [
    (TORCH, {"optim", "fsdp", "fused", "models", "data", "train", "apps", "comm"}, "LibTorch"),
    (re.compile(r"^mpi\.h$"), {"launch", "comm", "hdf5", "preflight"}, "MPI"),
    (re.compile(r"^nccl\.h$"), {"comm"}, "NCCL"),
    (re.compile(r"^hdf5\.h$|^H5\w+\.h$"), {"hdf5"}, "HDF5"),
    (re.compile(r"^boost/program_options"), {"apps"}, "Boost.Program_options"),
    (re.compile(r"^hwloc\.h$"), {"launch"}, "hwloc"),
    (re.compile(r"^yaml-cpp/"), {"configs"}, "yaml-cpp"),
]
# What breaks when LibTorch changes stays in one place.
INTERNALS = re.compile(r"\b(StorageImpl|DispatchKey|grad_accumulator)\b")
INTERNALS_HOME = re.compile(r"^src/fsdp/torch_internals\w*\.")

MAX_HEADER, MAX_FILE, MAX_FUNCTION = 150, 300, 40

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# A link of Markdown to a file of this repository.
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
# Clang-format puts what stands in a namespace at the left margin: a definition begins there and ends with a bare brace.
DEFINITION = re.compile(r"^(?!namespace|class|struct|enum|union|extern|using|#|//|/\*|[})\s]).+")


def cpp_files(root, *folders):
    found = [p for folder in folders for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp", ".cu")]
    return sorted(found)


def code_of(line):
    """The line without strings and without a comment at its end."""
    return re.sub(r"//.*", "", re.sub(r'"(\\.|[^"\\])*"', '""', line))


def check_includes(name, layer, lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        style, header = match.groups()
        if style == '"':
            target = header.split("/")[0]
            if "/" not in header or target not in LEVEL:
                yield number, f'"{header}" does not start with a layer of src/ (third-party headers take <>)'
            elif target != layer and LEVEL[target] >= LEVEL[layer] and (layer, target) not in NEIGHBOURS:
                yield number, f"layer {layer} must not include {target}, which is no layer below it"
        for pattern, homes, library in CONFINED:
            if pattern.search(header) and layer not in homes:
                yield number, f"layer {layer} must not use {library}; {', '.join(sorted(homes))} may"


def check_internals(name, lines):
    if INTERNALS_HOME.match(name):
        return
    for number, line in enumerate(lines, 1):
        match = INTERNALS.search(code_of(line))
        if match:
            yield number, f"{match.group(1)} belongs in src/fsdp/torch_internals alone"


def check_sizes(name, lines):
    limit = MAX_HEADER if name.endswith(".h") else MAX_FILE
    if len(lines) > limit:
        yield len(lines), f"{len(lines)} lines, where {limit} are the limit"
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and DEFINITION.match(line) and not line.rstrip().endswith(";"):
            start = number
        elif start is not None and line.rstrip() in ("}", "};"):
            if number - start - 1 > MAX_FUNCTION:
                yield start, f"a function of {number - start - 1} lines, where {MAX_FUNCTION} are the limit"
            start = None
        elif start is not None and (line.startswith("}") or line.rstrip().endswith(";") and line[:1] not in " \t"):
            start = None


def check_header(name, lines):
    if name.endswith(".h") and "#pragma once" not in (line.strip() for line in lines):
        yield 1, "a header without #pragma once"


def check_links(folder, lines):
    for number, line in enumerate(lines, 1):
        for target in LINK.findall(line):
            if not (folder / target).exists():
                yield number, f"a link to '{target}', which does not exist"


def layers_untold(root):
    """Layers of src/ that a document which lists them does not name."""
    layers = sorted(path.name for path in (root / "src").iterdir() if path.is_dir())
    for document, form in (("README.md", "](src/{})"), ("docs/architecture.md", "`{}`")):
        text = (root / document).read_text(encoding="utf-8") if (root / document).exists() else None
        for layer in layers:
            if text is not None and form.format(layer) not in text:
                yield f"{document}:1: nothing is said of src/{layer}"


def document_offences(root):
    yield from layers_untold(root)
    for path in sorted([*root.glob("*.md"), *root.glob("docs/*.md")]):
        for number, reason in check_links(path.parent, path.read_text(encoding="utf-8").splitlines()):
            yield f"{path.relative_to(root).as_posix()}:{number}: {reason}"


def offences(root):
    yield from document_offences(root)
    for path in cpp_files(root, "src", "tests", "bench"):
        name = path.relative_to(root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        checks = [check_sizes(name, lines), check_header(name, lines)]
        if name.startswith("src/"):
            layer = name.split("/")[1]
            if layer not in LEVEL:
                yield f"{name}:1: '{layer}' is no layer: add it to LEVELS in tests/architecture/check_source.py"
                continue
            checks += [check_includes(name, layer, lines), check_internals(name, lines)]
        for check in checks:
            for number, reason in check:
                yield f"{name}:{number}: {reason}"


def plain_headers(root):
    """Headers of src/ from which no chain of includes leads to LibTorch or CUDA."""
    includes = {}
    for path in cpp_files(root, "src"):
        if path.suffix == ".h":
            matches = filter(None, map(INCLUDE.match, path.read_text(encoding="utf-8").splitlines()))
            includes[path.relative_to(root / "src").as_posix()] = [m.group(2) for m in matches]

    def is_plain(header, seen=()):
        if TORCH.match(header) or CUDA.match(header):
            return False
        return all(is_plain(h, (*seen, header)) for h in includes.get(header, []) if h not in seen)

    return [header for header in sorted(includes) if is_plain(header)]


def main():
    root = pathlib.Path(sys.argv[1])
    if "--plain-headers" in sys.argv[2:]:
        print("\n".join(plain_headers(root)))
        return 0
    found = list(offences(root))
    print("\n".join(found) if found else f"{len(cpp_files(root, 'src'))} files of src/ keep to the plan")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
