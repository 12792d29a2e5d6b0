// Writes Python pickles of protocol 2 with the few opcodes that PyTorch's own writer uses, all of which the
// restricted reader behind torch.load(weights_only=True) takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::formats {

class PickleWriter {
 public:
  PickleWriter();
  void mark();
  void global(std::string_view module, std::string_view name);
  void string(std::string_view utf8);
  void integer(std::int64_t value);
  void boolean(bool value);
  void real(double value);
  void none();
  void integers(const std::vector<std::int64_t>& values);  // as a tuple
  void empty_tuple();
  void empty_list();
  void empty_dict();
  void tuple_from_mark();
  void reduce();         // callable and tuple below it on the stack → result
  void persistent_id();  // the object on top of the stack is the id
  void set_items();      // keys and values since the mark go into the mapping below it
  void append_items();   // values since the mark go to the end of the list below it
  // The finished pickle; nothing may be added after it.
  std::string finish();

 private:
  void little_endian(std::uint64_t value, int bytes);
  std::string bytes_;
};

}  // namespace shoal::formats
