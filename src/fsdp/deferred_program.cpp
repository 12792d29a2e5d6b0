#include "fsdp/deferred_program.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "core/check.h"

namespace shoal::fsdp {

using torch_internals::host_storage;
using torch_internals::tensor_in;
using torch_internals::view_of;

// The calls that something depends on, found from the last to the first.
class DeferredProgram::Slice {
 public:
  explicit Slice(const DeferredProgram& program) : program_(&program) {}

  // The contents of `memory` before call `before` count.
  void want_memory(int memory, int before) {
    last_use_.emplace(memory, before);  // the first to ask is the last to use it
    const auto& writers = program_->memory(memory).writers;
    const auto next = std::lower_bound(writers.begin(), writers.end(), before);
    if (next != writers.begin()) pending_.insert(*std::prev(next));
  }
  void want_call(int call) { pending_.insert(call); }

  std::vector<int> calls() {
    std::vector<int> found;
    while (!pending_.empty()) {
      const int number = *pending_.begin();
      pending_.erase(pending_.begin());
      found.push_back(number);
      const Call& call = program_->call(number);
      for (const Write& write : call.writes) {
        last_use_.emplace(write.memory, number);
        if (!write.overwrites) want_memory(write.memory, number);
      }
      for (const int memory : call.reads) want_memory(memory, number);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }
  bool done_with(int memory, int call) const {
    const auto last = last_use_.find(memory);
    return last == last_use_.end() || last->second <= call;
  }

 private:
  const DeferredProgram* program_;
  std::set<int, std::greater<>> pending_;
  std::unordered_map<int, int> last_use_;
};

DeferredProgram::DeferredProgram()
    : draws_([this](int call) {
        Slice slice(*this);
        slice.want_call(call);
        run(slice);
      }) {}

int DeferredProgram::add_memory(std::size_t bytes, std::optional<c10::Storage> given) {
  memories_.push_back({.bytes = bytes, .given = std::move(given), .writers = {}});
  return static_cast<int>(memories_.size()) - 1;
}

int DeferredProgram::add_place(int memory, torch_internals::View view) {
  places_.push_back({memory, std::move(view)});
  return static_cast<int>(places_.size()) - 1;
}

void DeferredProgram::append(Call call) {
  for (const Write& write : call.writes)
    memories_[static_cast<std::size_t>(write.memory)].writers.push_back(next_call());
  calls_.push_back(std::move(call));
}

c10::Storage DeferredProgram::values(int memory) {
  Slice slice(*this);
  slice.want_memory(memory, next_call());
  Live live = run(slice);
  const c10::Storage& values = live_storage(memory, live);
  if (!is_spare() || values.nbytes() > spare_.nbytes()) spare_ = values;
  return values;
}

DeferredProgram::Live DeferredProgram::run(Slice& slice) {
  Live live;
  for (const int number : slice.calls()) {
    const Call& now = call(number);
    if (now.draw < 0) {
      run_call(now, live);
    } else {
      draws_.play(now.draw, [&] { run_call(now, live); });
    }
    std::erase_if(live, [&](const auto& item) { return slice.done_with(item.first, number); });
  }
  return live;
}

void DeferredProgram::run_call(const Call& call, Live& live) {
  const std::vector<at::Tensor> results = call.op.play([&](const TensorRef& ref) {
    const Place& place = places_[static_cast<std::size_t>(ref.call)];
    return tensor_in(live_storage(place.memory, live), place.view);
  });
  keep_results(call, results, live);
}

// A result that does not lie in memory as it was foreseen is copied to where it should, and so is one that turns out to
// share the memory of an argument.
void DeferredProgram::keep_results(const Call& call, const std::vector<at::Tensor>& results, Live& live) const {
  for (const Made& made : call.made) {
    const at::Tensor& result = results[static_cast<std::size_t>(made.result)];
    const auto here = [&](const auto& item) { return item.second.is_alias_of(result.storage()); };
    const auto known = std::find_if(live.begin(), live.end(), here);
    const bool fits = view_of(result) == made.view && result.storage().nbytes() >= memory(made.memory).bytes;
    if (fits && known != live.end() && known->first == made.memory) continue;
    if (fits && known == live.end() && !live.contains(made.memory)) {
      live.emplace(made.memory, result.storage());
    } else {
      tensor_in(live_storage(made.memory, live), made.view).copy_(result);
    }
  }
}

// Whoever had the values in it may have kept them, or taken its memory over, which leaves the address but no owner.
bool DeferredProgram::is_spare() const {
  return spare_ && spare_.use_count() == 1 && spare_.data_ptr().get_context() != nullptr;
}

const c10::Storage& DeferredProgram::live_storage(int number, Live& live) const {
  if (const auto known = live.find(number); known != live.end()) return known->second;
  const Memory& wanted = memory(number);
  c10::Storage storage = is_spare() && spare_.nbytes() >= wanted.bytes ? spare_ : host_storage(wanted.bytes);
  if (wanted.given) std::memcpy(storage.mutable_data(), wanted.given->data(), wanted.bytes);
  return live.emplace(number, std::move(storage)).first->second;
}

}  // namespace shoal::fsdp
