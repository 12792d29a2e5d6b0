#include "formats/pickle_reader.h"

#include <bit>
#include <unordered_map>

#include "core/check.h"
#include "formats/byte_cursor.h"

namespace shoal::formats {
namespace {

using Kind = PickleNode::Kind;

constexpr std::size_t kMostNodes = 4'000'000;  // some thirty for each tensor
constexpr int kNewestProtocol = 5;

class Machine {
 public:
  Machine(std::string_view bytes, const std::string& where, const std::function<bool(std::string_view)>& allowed)
      : cursor_(bytes, where), where_(where), allowed_(allowed) {}

  Pickle run() {
    for (std::uint8_t opcode = cursor_.u8(); opcode != '.'; opcode = cursor_.u8())
      check(scalar(opcode) || container(opcode) || object(opcode) || memo(opcode), "has an unknown opcode", opcode);
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  void check(bool condition, const char* what, int opcode = -1) const {
    if (condition) [[likely]]
      return;
    const std::string code = opcode >= 0 ? fmt::format(" 0x{:02x}", opcode) : "";
    throw CheckpointError("{}: the pickle {}{} before its byte {}: it is damaged, or holds more than a state dict",
                          where_, what, code, cursor_.position());
  }

  PickleNode& push(Kind kind) {
    check(pickle_.nodes.size() < kMostNodes, "has too many objects");
    stack_.push_back(static_cast<PickleRef>(pickle_.nodes.size()));
    PickleNode& node = pickle_.nodes.emplace_back();
    node.kind = kind;
    return node;
  }
  bool push_integer(std::int64_t value, Kind kind = Kind::integer) {
    push(kind).integer = value;
    return true;
  }
  bool push_text(std::string_view text) {
    push(Kind::text).text = text;
    return true;
  }
  bool push_global(std::string_view module, std::string_view name) {
    std::string global = fmt::format("{}.{}", module, name);
    SHOAL_CHECK(allowed_(global), CheckpointError,
                "{}: the pickle wants Python's '{}', which is no part of a state dict of tensors: save "
                "model.state_dict() alone",
                where_, global.substr(0, 100));
    push(Kind::global).text = std::move(global);
    return true;
  }

  // What lies below the innermost mark is out of reach.
  PickleRef pop() {
    check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "takes from an empty stack");
    const PickleRef top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleNode& top() {
    check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "takes from an empty stack");
    return pickle_.nodes[stack_.back()];
  }
  std::vector<PickleRef> pop_to_mark() {
    check(!marks_.empty(), "misses a mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleRef> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleRef> pop_some(std::size_t count) {
    std::vector<PickleRef> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  bool push_items(Kind kind, std::vector<PickleRef> items) {
    push(kind).items = std::move(items);
    return true;
  }

  std::int64_t long_integer() {
    const std::size_t bytes = cursor_.u8();
    check(bytes <= 8, "has an integer of more than 64 bits");
    const std::uint64_t value = cursor_.number(bytes);
    const int unused = 64 - 8 * static_cast<int>(bytes);
    return bytes == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused;
  }

  bool scalar(std::uint8_t opcode) {
    switch (opcode) {
      case 'N': return push_integer(0, Kind::none);
      case 0x88: return push_integer(1, Kind::boolean);
      case 0x89: return push_integer(0, Kind::boolean);
      case 'J': return push_integer(static_cast<std::int32_t>(cursor_.u32()));
      case 'K': return push_integer(cursor_.u8());
      case 'M': return push_integer(cursor_.u16());
      case 0x8A: return push_integer(long_integer());
      case 'G': return push_real();
      case 'X': return push_text(cursor_.text(cursor_.u32()));
      case 0x8C: return push_text(cursor_.text(cursor_.u8()));
      case 0x8D: return push_text(cursor_.text(cursor_.u64()));
      case 'C':
      case 'U': return push_text(cursor_.text(cursor_.u8()));
      case 'B':
      case 'T': return push_text(cursor_.text(cursor_.u32()));
      case 0x8E: return push_text(cursor_.text(cursor_.u64()));
      default: return false;
    }
  }

  bool push_real() {
    const std::uint64_t big_endian = cursor_.u64();
    push(Kind::real).real = std::bit_cast<double>(__builtin_bswap64(big_endian));
    return true;
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case '(': marks_.push_back(stack_.size()); return true;
      case ')': return push_items(Kind::tuple, {});
      case 't': return push_items(Kind::tuple, pop_to_mark());
      case 0x85: return push_items(Kind::tuple, pop_some(1));
      case 0x86: return push_items(Kind::tuple, pop_some(2));
      case 0x87: return push_items(Kind::tuple, pop_some(3));
      case ']':
      case 0x8F: return push_items(Kind::list, {});             // a set
      case 0x91: return push_items(Kind::list, pop_to_mark());  // a frozen one
      case 'a': return append(pop_some(1));
      case 'e':
      case 0x90: return append(pop_to_mark());
      case '}': return push_items(Kind::dictionary, {});
      case 's': return set_entries(pop_some(2));
      case 'u': return set_entries(pop_to_mark());
      default: return false;
    }
  }

  bool append(std::vector<PickleRef> items) {
    check(top().kind == Kind::list, "appends to what is no list");
    top().items.insert(top().items.end(), items.begin(), items.end());
    return true;
  }

  bool set_entries(const std::vector<PickleRef>& items) {
    PickleNode& target = top();
    check(target.kind == Kind::dictionary || target.kind == Kind::call, "sets an entry in what is no dictionary");
    check(items.size() % 2 == 0, "has a key without a value");
    for (std::size_t i = 0; i < items.size(); i += 2) target.entries.emplace_back(items[i], items[i + 1]);
    return true;
  }

  bool object(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const std::string_view module = cursor_.text_until('\n');
        return push_global(module, cursor_.text_until('\n'));
      }
      case 0x93: return stack_global();
      case 'R':
      case 0x81: return push_items(Kind::call, call_items());
      case 0x92: pop(); return push_items(Kind::call, call_items());  // without what it is called with by name
      case 'Q': return push_items(Kind::persistent, pop_some(1));
      case 'b': return set_state(pop());
      default: return false;
    }
  }

  bool set_state(PickleRef state) {
    check(top().kind == Kind::call, "gives attributes to what is no object");
    top().state = state;
    return true;
  }

  bool stack_global() {
    const std::vector<PickleRef> names = pop_some(2);
    const PickleNode &module = pickle_.at(names[0]), &name = pickle_.at(names[1]);
    check(module.kind == Kind::text && name.kind == Kind::text, "has a global without a name");
    return push_global(module.text, name.text);
  }

  std::vector<PickleRef> call_items() {
    std::vector<PickleRef> items = pop_some(2);
    check(pickle_.at(items[0]).kind == Kind::global && pickle_.at(items[1]).kind == Kind::tuple,
          "calls what is no function");
    return items;
  }

  bool memo(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80: check(cursor_.u8() <= kNewestProtocol, "is of a newer protocol than 5"); return true;
      case 0x95: cursor_.u64(); return true;  // a frame: how far to read ahead
      case 'q': return remember(cursor_.u8());
      case 'r': return remember(cursor_.u32());
      case 0x94: return remember(static_cast<std::uint32_t>(memo_.size()));
      case 'h': return recall(cursor_.u8());
      case 'j': return recall(cursor_.u32());
      default: return false;
    }
  }

  bool remember(std::uint32_t index) {
    top();  // throws where there is nothing
    memo_[index] = stack_.back();
    return true;
  }
  bool recall(std::uint32_t index) {
    const auto found = memo_.find(index);
    check(found != memo_.end(), "recalls what it has not noted");
    stack_.push_back(found->second);
    return true;
  }

  ByteCursor cursor_;
  const std::string& where_;
  const std::function<bool(std::string_view)>& allowed_;
  Pickle pickle_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::unordered_map<std::uint32_t, PickleRef> memo_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes, const std::string& where,
                   const std::function<bool(std::string_view)>& allowed) {
  return Machine(bytes, where, allowed).run();
}

}  // namespace shoal::formats
