#include "fsdp/deferred_draws.h"

#include <ATen/CPUGeneratorImpl.h>

#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/hash.h"

namespace shoal::fsdp {
namespace {

std::string_view bytes_of(const at::Tensor& state) {
  return {static_cast<const char*>(state.const_data_ptr()), state.nbytes()};
}

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

std::unique_lock<std::recursive_mutex> default_generator_turn() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

// The seed alone does not tell: somebody may have drawn since.
int DeferredDraws::draw_at(const at::Generator& generator) const {
  const auto found = by_mark_.find(generator.current_seed());
  if (found == by_mark_.end()) return -1;
  const at::Tensor mark = state_of(at::detail::createCPUGenerator(found->first));
  return bytes_of(state_of(generator)) == bytes_of(mark) ? found->second : -1;
}

int DeferredDraws::append(at::Generator generator, int call) {
  const int number = static_cast<int>(draws_.size());
  Draw draw{.call = call, .previous = draw_at(generator)};
  if (draw.previous < 0) {
    draw.before = state_of(generator);
    hash_ = hash_combine(hash_, hash_string(bytes_of(draw.before)));
  }
  hash_ = hash_combine(hash_, static_cast<std::uint64_t>(draw.previous + 1));
  draw.mark = hash_;
  by_mark_.emplace(draw.mark, number);
  draws_.push_back(std::move(draw));
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(hash_);
  return number;
}

void DeferredDraws::play(int draw, const std::function<void()>& body) {
  const auto turn = default_generator_turn();
  const at::Tensor before = state_before(draw);
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  struct Restore {
    const at::Generator& generator;
    at::Tensor state;
    ~Restore() { set_state(generator, state); }
  } const restore{generator, state_of(generator)};
  set_state(generator, before);
  body();
  draws_[static_cast<std::size_t>(draw)].after = state_of(generator);
}

// Walks back to a state that is known and makes the draws from there on. What several draws lead to is kept, so that
// this is done once.
at::Tensor DeferredDraws::state_before(int draw) {
  std::vector<int> missing;
  const Draw* at = &draws_[static_cast<std::size_t>(draw)];
  while (at->previous >= 0) {
    const Draw& previous = draws_[static_cast<std::size_t>(at->previous)];
    if (previous.after.defined()) break;
    missing.push_back(at->previous);
    at = &previous;
  }
  while (!missing.empty()) {
    make_draw_(draws_[static_cast<std::size_t>(missing.back())].call);
    SHOAL_ASSERT(draws_[static_cast<std::size_t>(missing.back())].after.defined());
    missing.pop_back();
  }
  const Draw& wanted = draws_[static_cast<std::size_t>(draw)];
  return wanted.previous < 0 ? wanted.before : draws_[static_cast<std::size_t>(wanted.previous)].after;
}

at::Tensor DeferredDraws::state_after(int draw) {
  Draw& last = draws_[static_cast<std::size_t>(draw)];
  if (!last.after.defined()) make_draw_(last.call);
  return last.after;
}

void DeferredDraws::settle(at::Generator generator) {
  if (const int draw = draw_at(generator); draw >= 0) set_state(generator, state_after(draw));
}

}  // namespace shoal::fsdp
