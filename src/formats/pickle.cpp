#include "formats/pickle.h"

#include <bit>
#include <limits>

namespace shoal::formats {
namespace {

// Opcodes of pickle protocol 2 (Python's Lib/pickletools.py).
constexpr char kProto = '\x80', kStop = '.', kMark = '(', kGlobal = 'c', kBinUnicode = 'X', kBinInt = 'J',
               kLong1 = '\x8a', kNewTrue = '\x88', kNewFalse = '\x89', kTuple = 't', kEmptyTuple = ')', kReduce = 'R',
               kBinPersId = 'Q', kSetItems = 'u', kNone = 'N', kBinFloat = 'G', kEmptyList = ']', kEmptyDict = '}',
               kAppends = 'e';

}  // namespace

PickleWriter::PickleWriter() { bytes_ = {kProto, 2}; }

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
}

void PickleWriter::mark() { bytes_ += kMark; }

void PickleWriter::global(std::string_view module, std::string_view name) {
  bytes_ += kGlobal;
  bytes_.append(module) += '\n';
  bytes_.append(name) += '\n';
}

void PickleWriter::string(std::string_view utf8) {
  bytes_ += kBinUnicode;
  little_endian(utf8.size(), 4);
  bytes_ += utf8;
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    bytes_ += kBinInt;
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    bytes_ += kLong1;
    bytes_ += '\x08';  // bytes of the two's complement that follows
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::boolean(bool value) { bytes_ += value ? kNewTrue : kNewFalse; }

void PickleWriter::real(double value) {
  bytes_ += kBinFloat;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int byte = 7; byte >= 0; --byte) bytes_ += static_cast<char>(bits >> (8 * byte));  // the one big-endian number
}

void PickleWriter::none() { bytes_ += kNone; }

void PickleWriter::integers(const std::vector<std::int64_t>& values) {
  if (values.empty()) return empty_tuple();
  mark();
  for (const std::int64_t value : values) integer(value);
  tuple_from_mark();
}

void PickleWriter::empty_tuple() { bytes_ += kEmptyTuple; }
void PickleWriter::empty_list() { bytes_ += kEmptyList; }
void PickleWriter::empty_dict() { bytes_ += kEmptyDict; }
void PickleWriter::tuple_from_mark() { bytes_ += kTuple; }
void PickleWriter::reduce() { bytes_ += kReduce; }
void PickleWriter::persistent_id() { bytes_ += kBinPersId; }
void PickleWriter::set_items() { bytes_ += kSetItems; }
void PickleWriter::append_items() { bytes_ += kAppends; }

std::string PickleWriter::finish() {
  bytes_ += kStop;
  return std::move(bytes_);
}

}  // namespace shoal::formats
