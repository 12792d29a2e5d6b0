// What a disk would hold after a loss of power: a file has what was in it when it was last synced, a directory the
// entries that it had when it was last synced, and of what came after that any part may be there or not.
//
// The order in which later changes arrive: entries of one directory in the order in which they were made, as journals
// have it; writes to a file in any order, each possibly cut short.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace shoal::testing {

class DiskModel {
 public:
  // Of `root`, an existing directory, with all that is in it as durable.
  explicit DiskModel(std::filesystem::path root);

  struct Node;
  using NodePtr = std::shared_ptr<Node>;

  // Null outside of the root, or where there is nothing of the name.
  NodePtr find(const std::filesystem::path& path) const;
  NodePtr make(const std::filesystem::path& path, bool is_directory);
  void remove(const std::filesystem::path& path);
  void rename(const std::filesystem::path& from, const std::filesystem::path& to);
  static void write(Node& file, std::int64_t offset, std::string bytes);
  static void resize(Node& file, std::int64_t bytes);
  static void sync(Node& node);

  // Makes the root what a disk could hold now, and takes that for durable.
  void lose_power(std::mt19937_64& random);

 private:
  // A change of a directory: these entries are set, or removed where the node is null, at once.
  using EntryChange = std::vector<std::pair<std::string, NodePtr>>;
  struct FileChange {
    bool is_resize;
    std::int64_t offset;  // or the size
    std::string bytes;
  };

 public:
  struct Node {
    bool is_directory = false;
    std::map<std::string, NodePtr> entries, durable_entries;
    std::vector<EntryChange> entry_changes;  // since the last sync
    std::string durable_bytes;
    std::vector<FileChange> file_changes;  // since the last sync
  };

 private:
  static void apply(std::string& bytes, const FileChange& change, std::size_t kept);
  static void change_entries(Node& directory, EntryChange change);
  static void import_from(const std::filesystem::path& path, Node& node);
  static void lose(Node& node, std::mt19937_64& random);
  static void materialize(const std::filesystem::path& path, const Node& node);

  std::filesystem::path root_path_;
  NodePtr root_;
};

}  // namespace shoal::testing
