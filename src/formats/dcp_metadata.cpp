#include "formats/dcp_metadata.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/check.h"
#include "formats/pickle_reader.h"
#include "formats/stored_tensor.h"

namespace shoal::formats {
namespace {

using Kind = PickleNode::Kind;

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata.",
                           kOldMetadata = "torch.distributed._shard.sharded_tensor.metadata.",
                           kFiles = "torch.distributed.checkpoint.filesystem.";
constexpr std::array<std::string_view, 9> kClasses{
    "Metadata",         "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex",
    "TensorProperties", "_MEM_FORMAT_ENCODING",  "StorageMeta",          "MEM_FORMAT_ENCODING"};
// getattr: by it Python 3.11.0 to 3.11.3 name a value of an enumeration, here of memory formats, which nobody asks for.
constexpr std::array<std::string_view, 13> kValues{"torch.Size",
                                                   "builtins.getattr",
                                                   "torch.serialization._get_layout",
                                                   "pathlib.PosixPath",
                                                   "pathlib.PurePosixPath",
                                                   "pathlib.WindowsPath",
                                                   "pathlib.PureWindowsPath",
                                                   "pathlib._local.PosixPath",
                                                   "pathlib._local.PurePosixPath",
                                                   "pathlib._local.WindowsPath",
                                                   "collections.ChainMap",
                                                   "collections.OrderedDict",
                                                   "torch.device"};

struct ElementType {
  std::string_view global;
  DType dtype;
};
constexpr std::array<ElementType, 12> kTypes{{{"torch.float64", DType::float64},
                                              {"torch.float32", DType::float32},
                                              {"torch.float16", DType::float16},
                                              {"torch.bfloat16", DType::bfloat16},
                                              {"torch.float8_e4m3fn", DType::float8_e4m3fn},
                                              {"torch.float8_e5m2", DType::float8_e5m2},
                                              {"torch.int64", DType::int64},
                                              {"torch.int32", DType::int32},
                                              {"torch.int16", DType::int16},
                                              {"torch.int8", DType::int8},
                                              {"torch.uint8", DType::uint8},
                                              {"torch.bool", DType::boolean}}};

bool is_class(std::string_view global) {
  for (const std::string_view module : {kMetadata, kOldMetadata})
    if (global.starts_with(module))
      return std::find(kClasses.begin(), kClasses.end(), global.substr(module.size())) != kClasses.end();
  return global.starts_with(kFiles) && global.substr(kFiles.size()) == "_StorageInfo";
}

bool is_allowed(std::string_view global) {
  const bool element_type =
      global.starts_with("torch.") && global.find('.', 6) == std::string_view::npos &&
      global.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", 6) == std::string_view::npos;
  return is_class(global) || element_type || std::find(kValues.begin(), kValues.end(), global) != kValues.end();
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& where)
      : where_(where), pickle_(read_pickle(bytes, where, is_allowed)) {}

  std::vector<DcpEntry> read() {
    const PickleNode& root = object(pickle_.root, "Metadata");
    read_places(wanted(root, "storage_data"));
    std::vector<DcpEntry> entries;
    for (const auto& [key, value] : dictionary(wanted(root, "state_dict_metadata")).entries)
      entries.push_back(entry(text(key), value));
    if (const auto paths = attribute(root, "planner_data")) read_paths(*paths, entries);
    return entries;
  }

 private:
  using Place = std::pair<std::string, std::vector<std::int64_t>>;  // key and offsets

  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError("{}: {}: it is damaged, or of an unknown version of torch.distributed.checkpoint", where_,
                          what);
  }
  const PickleNode& node(PickleRef ref) const { return pickle_.at(ref); }
  const std::string& text(PickleRef ref) const {
    if (node(ref).kind != Kind::text) fail("a name is no text");
    return node(ref).text;
  }
  std::string_view class_of(const PickleNode& value) const {
    if (value.kind != Kind::call) return "";
    const std::string_view global = node(value.items[0]).text;
    return global.substr(global.rfind('.') + 1);
  }
  const PickleNode& object(PickleRef ref, std::string_view name) const {
    if (class_of(node(ref)) != name || !node(ref).state) fail(fmt::format("something is no {}", name));
    return node(ref);
  }
  const PickleNode& dictionary(PickleRef ref) const {
    if (node(ref).kind != Kind::dictionary) fail("something is no dictionary");
    return node(ref);
  }
  std::optional<PickleRef> attribute(const PickleNode& object, std::string_view name) const {
    for (const auto& [key, value] : dictionary(*object.state).entries)
      if (text(key) == name) return node(value).kind == Kind::none ? std::nullopt : std::optional(value);
    return std::nullopt;
  }
  PickleRef wanted(const PickleNode& object, const char* name) const {
    const auto found = attribute(object, name);
    if (!found) fail(fmt::format("an object lacks its '{}'", name));
    return *found;
  }
  std::uint64_t count(PickleRef ref) const {
    if (node(ref).kind != Kind::integer || node(ref).integer < 0) fail("a size or offset cannot be");
    return static_cast<std::uint64_t>(node(ref).integer);
  }
  // torch.Size((2, 3))
  std::vector<std::int64_t> extents(PickleRef ref) const {
    if (class_of(node(ref)) != "Size" || node(node(ref).items[1]).items.size() != 1) fail("something is no torch.Size");
    std::vector<std::int64_t> values;
    for (const PickleRef item : node(node(node(ref).items[1]).items[0]).items)
      values.push_back(static_cast<std::int64_t>(count(item)));
    return values;
  }

  // {MetadataIndex(fqn, offset, index): _StorageInfo(relative_path, offset, length)}
  void read_places(PickleRef ref) {
    for (const auto& [key, value] : dictionary(ref).entries) {
      const PickleNode& index = object(key, "MetadataIndex");
      const PickleNode& info = object(value, "_StorageInfo");
      const std::string& name = text(wanted(index, "fqn"));
      if (attribute(info, "transform_descriptors"))
        throw CheckpointError("{}: '{}' was written through transforms (compressed, say), which Shoal does not undo",
                              where_, name);
      DcpPlace place{text(wanted(info, "relative_path")), count(wanted(info, "offset")), count(wanted(info, "length"))};
      if (place.file.empty() || place.file.front() == '.' ||
          place.file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
        fail(fmt::format("'{}' is no name of a file beside it", place.file));
      const auto offsets = attribute(index, "offset");
      if (!places_.try_emplace({name, offsets ? extents(*offsets) : std::vector<std::int64_t>{}}, place).second)
        fail(fmt::format("a part of '{}' is there twice", name));
    }
  }

  DcpPlace place_of(const std::string& key, const std::vector<std::int64_t>& offsets) const {
    const auto found = places_.find({key, offsets});
    if (found == places_.end()) fail(fmt::format("a part of '{}' is nowhere", key));
    return found->second;
  }

  DcpEntry entry(const std::string& key, PickleRef ref) const {
    DcpEntry entry;
    entry.key = key;
    entry.path = {key};
    entry.tensor = class_of(node(ref)) != "BytesStorageMetadata";
    if (!entry.tensor) {
      entry.place = place_of(key, {});
      return entry;
    }
    const PickleNode& tensor = object(ref, "TensorStorageMetadata");
    entry.shape = extents(wanted(tensor, "size"));
    // (dtype, layout, requires_grad, memory_format, pin_memory)
    const PickleNode& properties = node(*object(wanted(tensor, "properties"), "TensorProperties").state);
    if (properties.kind != Kind::tuple || properties.items.empty()) fail(fmt::format("'{}' has no element type", key));
    entry.dtype = node(properties.items[0]).text;
    for (const ElementType& type : kTypes)
      if (type.global == entry.dtype) entry.known = type.dtype;
    for (const PickleRef chunk : node(wanted(tensor, "chunks")).items) {
      const PickleNode& box = object(chunk, "ChunkStorageMetadata");
      entry.chunks.push_back({extents(wanted(box, "offsets")), extents(wanted(box, "sizes")), {}});
    }
    check_chunks(entry);
    return entry;
  }

  // Each element once: boxes within the shape that do not meet and have as many elements as it.
  void check_chunks(DcpEntry& entry) const {
    const std::optional<std::int64_t> bytes = bytes_of(entry.known.value_or(DType::float64), entry.shape);
    if (!bytes) fail(fmt::format("'{}' has an impossible shape", entry.key));
    std::erase_if(entry.chunks, [](const DcpChunk& c) { return std::count(c.sizes.begin(), c.sizes.end(), 0) > 0; });
    std::uint64_t covered = 0;  // at most as often the whole as the pickle has objects
    for (DcpChunk& chunk : entry.chunks) {
      if (chunk.offsets.size() != entry.shape.size() || chunk.sizes.size() != entry.shape.size())
        fail(fmt::format("a chunk of '{}' has other dimensions than it", entry.key));
      std::int64_t numel = 1;
      for (std::size_t i = 0; i < entry.shape.size(); ++i) {
        if (chunk.sizes[i] > entry.shape[i] || chunk.offsets[i] > entry.shape[i] - chunk.sizes[i])
          fail(fmt::format("a chunk of '{}' leaves it", entry.key));
        numel *= chunk.sizes[i];
      }
      covered += static_cast<std::uint64_t>(numel);
      chunk.place = place_of(entry.key, chunk.offsets);
    }
    check_apart(entry);
    if (covered != static_cast<std::uint64_t>(*bytes / size_of(entry.known.value_or(DType::float64))))
      fail(fmt::format("the chunks of '{}' leave gaps", entry.key));
  }

  static bool meet(const DcpChunk& a, const DcpChunk& b) {
    for (std::size_t i = 0; i < a.sizes.size(); ++i)
      if (a.offsets[i] >= b.offsets[i] + b.sizes[i] || b.offsets[i] >= a.offsets[i] + a.sizes[i]) return false;
    return true;
  }

  // Sorted by offsets, boxes can only meet those that begin before their own first dimension ends.
  void check_apart(DcpEntry& entry) const {
    std::vector<DcpChunk>& chunks = entry.chunks;
    std::sort(chunks.begin(), chunks.end(), [](const DcpChunk& a, const DcpChunk& b) { return a.offsets < b.offsets; });
    for (std::size_t i = 0; i < chunks.size(); ++i)
      for (std::size_t k = i + 1; k < chunks.size(); ++k) {
        if (!chunks[i].sizes.empty() && chunks[k].offsets[0] >= chunks[i].offsets[0] + chunks[i].sizes[0]) break;
        if (meet(chunks[i], chunks[k])) fail(fmt::format("two chunks of '{}' overlap", entry.key));
      }
  }

  // {key: ("model", "layer.weight")}
  void read_paths(PickleRef ref, std::vector<DcpEntry>& entries) const {
    if (node(ref).kind != Kind::dictionary) return;  // of a planner of somebody's own
    std::map<std::string_view, PickleRef> paths;
    for (const auto& [key, value] : node(ref).entries)
      if (node(key).kind == Kind::text) paths[node(key).text] = value;
    for (DcpEntry& entry : entries) {
      const auto found = paths.find(entry.key);
      if (found == paths.end() || node(found->second).kind != Kind::tuple || node(found->second).items.empty())
        continue;
      entry.path.clear();
      for (const PickleRef item : node(found->second).items)
        entry.path.push_back(node(item).kind == Kind::text ? node(item).text : std::to_string(node(item).integer));
    }
  }

  const std::string& where_;
  Pickle pickle_;
  std::map<Place, DcpPlace> places_;
};

}  // namespace

std::vector<DcpEntry> read_dcp_metadata(std::string_view bytes, const std::string& where) {
  return Reader(bytes, where).read();
}

}  // namespace shoal::formats
