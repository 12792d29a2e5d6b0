#!/usr/bin/env python3
"""Prints unicode_ranges.cpp. Needs the package unicodedata2 of the Unicode version wanted:

    pip install unicodedata2==16.0.0
    python3 make_unicode_ranges.py > unicode_ranges.cpp
    clang-format -i unicode_ranges.cpp

The version is that of the `tokenizers` library that the tests compare with; a newer one would give other tokens for text
in scripts that were added since.
"""
import textwrap

import unicodedata2


def runs(category):
    """(code points since the end of the run before, code points in it) for all runs of a category."""
    numbers, end = [], 0
    for point in range(0x110000):
        if unicodedata2.category(chr(point))[0] != category:
            continue
        if numbers and point == end:
            numbers[-1] += 1
        else:
            numbers += [point - end, 1]
        end = point + 1
    return numbers


def array(name, numbers):
    body = "\n".join(textwrap.wrap(", ".join(map(str, numbers)), 114))
    return f"constexpr std::uint32_t {name}[] = {{\n{textwrap.indent(body, '    ')}}};"


print(f"""// Made by make_unicode_ranges.py from Unicode {unicodedata2.unidata_version}; do not edit.
#include "data/unicode_ranges.h"

namespace shoal::data {{
namespace {{

{array("kLetters", runs("L"))}

{array("kNumbers", runs("N"))}

}}  // namespace

std::span<const std::uint32_t> letter_runs() {{ return kLetters; }}
std::span<const std::uint32_t> number_runs() {{ return kNumbers; }}

}}  // namespace shoal::data""")
