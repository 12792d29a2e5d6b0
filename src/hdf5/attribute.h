// Attributes of a file's root group: UTF-8 strings of any length, int64 and float64.
#pragma once

#include <cstdint>
#include <string>

#include "hdf5/file.h"

namespace shoal::hdf5 {

void write_attribute(File& file, const std::string& name, const std::string& value);
void write_attribute(File& file, const std::string& name, std::int64_t value);
void write_attribute(File& file, const std::string& name, double value);

// Hdf5Error where the attribute is missing or of another kind.
std::string read_string_attribute(const File& file, const std::string& name);
std::int64_t read_int64_attribute(const File& file, const std::string& name);
double read_float64_attribute(const File& file, const std::string& name);

}  // namespace shoal::hdf5
