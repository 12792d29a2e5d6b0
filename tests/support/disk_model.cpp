#include "support/disk_model.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace shoal::testing {

namespace fs = std::filesystem;

DiskModel::DiskModel(fs::path root) : root_path_(std::move(root)), root_(std::make_shared<Node>()) {
  root_->is_directory = true;
  import_from(root_path_, *root_);
}

void DiskModel::import_from(const fs::path& path, Node& node) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    auto child = std::make_shared<Node>();
    child->is_directory = entry.is_directory();
    if (child->is_directory) {
      import_from(entry.path(), *child);
    } else {
      std::ifstream file(entry.path(), std::ios::binary);
      child->durable_bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    node.entries[entry.path().filename().string()] = child;
  }
  node.durable_entries = node.entries;
}

DiskModel::NodePtr DiskModel::find(const fs::path& path) const {
  const fs::path inside = path.lexically_normal().lexically_relative(root_path_);
  if (inside.empty() || *inside.begin() == "..") return nullptr;
  NodePtr node = root_;
  for (const fs::path& part : inside) {
    if (part == "." || part.empty()) continue;
    const auto found = node->entries.find(part.string());
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

void DiskModel::change_entries(Node& directory, EntryChange change) {
  for (const auto& [name, node] : change) {
    if (node)
      directory.entries[name] = node;
    else
      directory.entries.erase(name);
  }
  directory.entry_changes.push_back(std::move(change));
}

DiskModel::NodePtr DiskModel::make(const fs::path& path, bool is_directory) {
  const NodePtr parent = find(path.parent_path());
  if (!parent) return nullptr;
  auto node = std::make_shared<Node>();
  node->is_directory = is_directory;
  change_entries(*parent, {{path.filename().string(), node}});
  return node;
}

void DiskModel::remove(const fs::path& path) {
  if (const NodePtr parent = find(path.parent_path())) change_entries(*parent, {{path.filename().string(), nullptr}});
}

void DiskModel::rename(const fs::path& from, const fs::path& to) {
  const NodePtr node = find(from), source = find(from.parent_path()), target = find(to.parent_path());
  if (!node || source != target) throw std::logic_error("the model renames within one directory alone");
  change_entries(*source, {{from.filename().string(), nullptr}, {to.filename().string(), node}});
}

void DiskModel::write(Node& file, std::int64_t offset, std::string bytes) {
  file.file_changes.push_back({false, offset, std::move(bytes)});
}

void DiskModel::resize(Node& file, std::int64_t bytes) { file.file_changes.push_back({true, bytes, {}}); }

void DiskModel::apply(std::string& bytes, const FileChange& change, std::size_t kept) {
  const auto at = static_cast<std::size_t>(change.offset);
  if (change.is_resize) {
    bytes.resize(at);
    return;
  }
  if (bytes.size() < at + kept) bytes.resize(at + kept);
  bytes.replace(at, kept, change.bytes, 0, kept);
}

void DiskModel::sync(Node& node) {
  node.durable_entries = node.entries;
  node.entry_changes.clear();
  for (const FileChange& change : node.file_changes) apply(node.durable_bytes, change, change.bytes.size());
  node.file_changes.clear();
}

void DiskModel::lose(Node& node, std::mt19937_64& random) {
  const std::size_t arrived = random() % (node.entry_changes.size() + 1);
  for (std::size_t i = 0; i < arrived; ++i) {
    for (const auto& [name, child] : node.entry_changes[i]) {
      if (child)
        node.durable_entries[name] = child;
      else
        node.durable_entries.erase(name);
    }
  }
  for (const FileChange& change : node.file_changes) {
    const auto fate = random() % 4;  // half of them are lost, some are cut short
    if (fate >= 2) apply(node.durable_bytes, change, fate == 2 ? change.bytes.size() : change.bytes.size() / 2);
  }
  node.entries = node.durable_entries;
  node.entry_changes.clear();
  node.file_changes.clear();
  for (const auto& [name, child] : node.entries) lose(*child, random);
}

void DiskModel::materialize(const fs::path& path, const Node& node) {
  if (!node.is_directory) {
    std::ofstream file(path, std::ios::binary);
    file << node.durable_bytes;
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
    return;
  }
  fs::create_directories(path);
  for (const auto& [name, child] : node.entries) materialize(path / name, *child);
}

void DiskModel::lose_power(std::mt19937_64& random) {
  lose(*root_, random);
  for (const fs::directory_entry& entry : fs::directory_iterator(root_path_)) fs::remove_all(entry.path());
  materialize(root_path_, *root_);
}

}  // namespace shoal::testing
