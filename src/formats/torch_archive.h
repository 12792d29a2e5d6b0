// A file of torch.save (PyTorch 1.6 and later: a ZIP archive of data.pkl and one stored entry for each storage) as the
// tree of values that was saved. Tensors are nodes of it that say where their elements lie; nothing is executed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_source.h"
#include "formats/pickle_reader.h"
#include "formats/stored_tensor.h"
#include "formats/zip_reader.h"

namespace shoal::formats {

class TorchArchive {
 public:
  // `also`: globals ("module.name") that may be named beside those of tensors, containers and numbers. CheckpointError,
  // with path, entry and what is wrong, for anything that is damaged, and for objects of Python beyond these.
  explicit TorchArchive(ByteSource file, const std::function<bool(std::string_view global)>& also = {});
  TorchArchive(const TorchArchive&) = delete;
  TorchArchive& operator=(const TorchArchive&) = delete;

  const std::string& path() const { return file_.path; }
  const Pickle& pickle() const { return pickle_; }
  const PickleNode& at(PickleRef ref) const { return pickle_.at(ref); }
  const PickleNode& root() const { return at(pickle_.root); }

  bool calls(const PickleNode& node, std::string_view global) const;
  bool is_dictionary(const PickleNode& node) const;
  bool has_tensors(const PickleNode& node) const;  // a dictionary with at least one
  // The value of a dictionary's key, or of none where it lacks it or `node` is no dictionary.
  const PickleNode* find(const PickleNode& node, std::string_view key) const;
  // As a dictionary's key is shown: text as it is.
  static std::string name_of_key(const PickleNode& key);

  // The call that makes the tensor, also where a Parameter is around it; none where the node is no tensor.
  const PickleNode* as_tensor(const PickleNode& node) const;
  // Where the tensor lies that the call makes; nothing where Shoal does not have its element type, for the `reason`.
  // CheckpointError, with `name`, where it cannot be.
  std::optional<StoredTensor> place(const PickleNode& call, const std::string& name, std::string& reason);
  // The value of a number or truth value, or of a tensor of one element; nothing for anything else.
  std::optional<double> number(const PickleNode& node);
  // Of a torch.Size, tuple or list; CheckpointError where it is none, or an element is negative.
  std::vector<std::int64_t> integers(const PickleNode& node, const std::string& name) const;

 private:
  struct Storage {
    std::string global;
    ZipReader::Place place;
  };
  const std::string& callee(const PickleNode& node) const { return at(node.items[0]).text; }
  const std::vector<PickleRef>& arguments(const PickleNode& node) const { return at(node.items[1]).items; }
  // (storage, offset, shape, strides, …), also where the call is around another that is told by name.
  const std::vector<PickleRef>& tensor_arguments(const PickleNode& call) const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;
  std::int64_t integer(PickleRef ref, const std::string& name) const;
  Storage storage(PickleRef ref, const std::string& name);
  void place_elements(StoredTensor& tensor, std::int64_t first, const ZipReader::Place& storage) const;

  ByteSource file_;
  ZipReader zip_;
  std::string root_;  // the folder inside of the archive, with the slash
  Pickle pickle_;
  std::map<std::string, ZipReader::Place> places_;  // of the storages
};

}  // namespace shoal::formats
