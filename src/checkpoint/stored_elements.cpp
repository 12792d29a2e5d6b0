#include "checkpoint/stored_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/row_major_boxes.h"

namespace shoal::checkpoint {
namespace {

using formats::StoredTensor;

// A dimension of a box: its extent, and how far apart its elements are in the file and in memory.
struct Axis {
  std::int64_t count, in_file, in_memory;
};

// Reads elements that lie apart, through a window that moves with them.
class Gather {
 public:
  // `last`: the last element that the tensor has in the file, counted from its first.
  Gather(const InputFile& file, std::int64_t offset, std::int64_t element, std::int64_t last)
      : file_(&file), offset_(offset), element_(element), end_((last + 1) * element) {}

  // In the order of the file, so that it is read forwards.
  void read(std::vector<Axis> axes, std::int64_t first, std::byte* into) {
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.in_file > b.in_file; });
    const std::int64_t run = axes.empty() ? 1 : (axes.back().count - 1) * axes.back().in_file + 1;
    window_bytes_ = std::clamp(run * element_, kLeastWindow, kMostWindow);
    std::vector<std::int64_t> index(axes.size(), 0);
    std::int64_t from = first, to = 0;
    for (bool more = true; more;) {
      std::memcpy(into + to * element_, at(from * element_), static_cast<std::size_t>(element_));
      more = false;
      for (std::size_t i = axes.size(); i-- > 0 && !more;) {
        more = ++index[i] < axes[i].count;
        const std::int64_t step = more ? 1 : 1 - axes[i].count;
        if (!more) index[i] = 0;
        from += step * axes[i].in_file;
        to += step * axes[i].in_memory;
      }
    }
  }

 private:
  static constexpr std::int64_t kLeastWindow = 4 << 10, kMostWindow = 1 << 20;

  const std::byte* at(std::int64_t byte) {
    const auto held = static_cast<std::int64_t>(window_.size());
    if (byte < window_begin_ || byte + element_ > window_begin_ + held) {
      window_.resize(static_cast<std::size_t>(std::min(window_bytes_, end_ - byte)));
      file_->read_at(offset_ + byte, window_.data(), window_.size());
      window_begin_ = byte;
    }
    return window_.data() + (byte - window_begin_);
  }

  const InputFile* file_;
  std::int64_t offset_, element_, end_, window_bytes_ = kLeastWindow, window_begin_ = 0;
  std::vector<std::byte> window_;
};

void read_strided(const InputFile& file, const StoredTensor& tensor, std::int64_t begin, std::int64_t count,
                  std::byte* into) {
  const auto& shape = tensor.spec.shape;
  const std::int64_t element = size_of(tensor.spec.dtype);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * tensor.strides[i];
  Gather gather(file, static_cast<std::int64_t>(tensor.offset), element, last);
  for (const Box& box : row_major_boxes(shape, begin, count)) {
    std::vector<Axis> axes;
    std::int64_t first = 0, in_memory = 1;
    for (std::size_t i = shape.size(); i-- > 0; in_memory *= box.count[i]) {
      first += box.start[i] * tensor.strides[i];
      if (box.count[i] > 1) axes.push_back({box.count[i], tensor.strides[i], in_memory});
    }
    gather.read(std::move(axes), first, into);
    into += box.numel * element;
  }
}

}  // namespace

formats::ByteSource source_of(const std::shared_ptr<InputFile>& file, const std::filesystem::path& path) {
  return {path.string(), static_cast<std::uint64_t>(file->size()),
          [file](std::uint64_t offset, void* into, std::size_t bytes) {
            file->read_at(static_cast<std::int64_t>(offset), into, bytes);
          }};
}

void read_stored(const InputFile& file, const StoredTensor& tensor, std::int64_t begin, std::int64_t count,
                 std::byte* into) {
  if (!tensor.strides.empty()) return read_strided(file, tensor, begin, count, into);
  const std::int64_t element = size_of(tensor.spec.dtype);
  file.read_at(static_cast<std::int64_t>(tensor.offset) + begin * element, into,
               static_cast<std::size_t>(count * element));
}

}  // namespace shoal::checkpoint
