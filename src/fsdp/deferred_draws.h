// Draws from random number generators that are made later than they were asked for.
//
// A draw depends on all draws before it from the same generator. While a program is recorded nothing is drawn: after
// each recorded draw its generator is set to a seed that stands for "where this draw leaves it". A generator that is
// found at such a mark goes on there; any other state (a new generator, manual_seed(), a state put back) starts anew.
// The true state after a draw becomes known when the draw is made, and is kept: draws that are made in order are made
// once.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace shoal::fsdp {

// Deferred draws of any generator are made with LibTorch's default one, and recording moves it, whose state belongs to
// the whole process: one thread at a time.
std::unique_lock<std::recursive_mutex> default_generator_turn();

// For one thread. Generators are of the CPU.
class DeferredDraws {
 public:
  // `make_draw(call)` makes the draws of a recorded call, through play(), for the state that they lead to.
  explicit DeferredDraws(std::function<void(int call)> make_draw) : make_draw_(std::move(make_draw)) {}

  // `call` draws from `generator` next. Returns the number of this draw.
  int append(at::Generator generator, int call);
  // Runs `body` while the default generator stands where the generator of `draw` stood.
  void play(int draw, const std::function<void()>& body);
  // Puts a generator that stands at a mark where it would stand had all its draws been made.
  void settle(at::Generator generator);
  // Of the states that draws start from: the same where they give the same numbers.
  std::uint64_t hash() const { return hash_; }

 private:
  struct Draw {
    int call;
    int previous;              // the draw that leads to this one; -1: `before` is known
    at::Tensor before, after;  // states
    std::uint64_t mark;        // the seed that stands for `after`
  };
  int draw_at(const at::Generator& generator) const;
  at::Tensor state_before(int draw);
  at::Tensor state_after(int draw);

  std::function<void(int)> make_draw_;
  std::vector<Draw> draws_;
  std::unordered_map<std::uint64_t, int> by_mark_;
  std::uint64_t hash_ = 0;
};

}  // namespace shoal::fsdp
