// An archive as numpy.savez() writes it: for each name one .npy file, stored as it is. ZIP has no second name for a
// file, so tied tensors are in it once for each name.
#include "checkpoint/export_layout.h"
#include "core/check.h"
#include "formats/npy.h"
#include "formats/zip_layout.h"

namespace shoal::checkpoint {
namespace {

constexpr std::size_t kLongestName = 65000;  // with its suffix less than what ZIP takes

void check_is_array(const TensorSpec& spec) {
  SHOAL_CHECK(formats::npy_type(spec.dtype), OptionError,
              "--format npz: NumPy has no element type {}, which tensor '{}' has; give --dtype fp32 or fp16",
              name_of(spec.dtype), spec.name);
  SHOAL_CHECK(spec.name.size() <= kLongestName, OptionError,
              "--format npz: the name '{}…' of {} characters is too long for a ZIP archive; give a --rename",
              spec.name.substr(0, 80), spec.name.size());
}

}  // namespace

ExportLayout lay_out_npz(const std::filesystem::path& output, const ExportPlan& plan) {
  formats::ZipLayout zip;
  ExportLayout layout;
  std::vector<std::string> headers;
  for (const ExportTensor& tensor : plan.tensors) {
    check_is_array(tensor.spec);
    headers.push_back(formats::npy_header(tensor.spec));
    const std::string& header = headers.back();
    const std::size_t entry =
        zip.add(tensor.spec.name + ".npy", header.size() + static_cast<std::uint64_t>(bytes_of(tensor)));
    zip.note_piece(entry, 0, header.data(), header.size());
    layout.places.push_back({0, static_cast<std::int64_t>(zip.data_offset(entry) + header.size())});
  }
  layout.files = {{output, static_cast<std::int64_t>(zip.total_bytes())}};
  layout.wants_zip_crc = true;
  layout.records = [zip, headers = std::move(headers)](const std::vector<WrittenPart>& parts) {
    formats::ZipLayout finished = zip;
    for (const WrittenPart& part : parts)
      finished.note_checksum(part.tensor, headers[part.tensor].size() + static_cast<std::uint64_t>(part.offset),
                             static_cast<std::uint64_t>(part.bytes), part.zip_crc);
    std::vector<ExportRecord> records;
    for (auto& [offset, bytes] : finished.records())
      records.push_back({{0, static_cast<std::int64_t>(offset)}, std::move(bytes)});
    for (std::size_t i = 0; i < headers.size(); ++i)
      records.push_back({{0, static_cast<std::int64_t>(finished.data_offset(i))}, headers[i]});
    return records;
  };
  return layout;
}

}  // namespace shoal::checkpoint
