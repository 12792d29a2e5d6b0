// The numerics of src/optim and the loss scaler on what standard input holds, for tests/interop to compare with Python.
//   optimizer_probe optimizer NAME DTYPE STEPS COUNT LR GRAD_SCALE WEIGHT_DECAY MOMENTUM
//       in: parameters, then the gradients of each step; out: parameters, then each state, all raw. The second half is
//       a group of its own, without weight decay and at half the learning rate.
//   optimizer_probe schedule TEXT BASE TOTAL WARMUP STEPS_AN_EPOCH     out: the rate of each step
//   optimizer_probe sum DTYPE              in: raw elements; out: their exact sum of squares
//   optimizer_probe scaler                 in: 1 for a finite step, 0 for another; out: the scale after each
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "core/check.h"
#include "optim/optimizer.h"
#include "optim/reductions.h"
#include "optim/schedule.h"
#include "train/loss_scaler.h"

namespace {

using namespace shoal;
using Arguments = std::vector<std::string>;

std::string read_all() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

DType dtype_of(const std::string& name) { return name == "float32" ? DType::float32 : DType::float64; }

// A half of the arrays: `offset` is in bytes.
optim::FlatSpan span_at(std::vector<std::string>& arrays, const char* grad, std::size_t offset, std::int64_t count,
                        DType dtype) {
  optim::FlatSpan span;
  span.dtype = dtype;
  span.param = arrays[0].data() + offset;
  span.grad = grad + offset;
  for (std::size_t s = 1; s < arrays.size(); ++s) span.state.push_back(arrays[s].data() + offset);
  span.count = count;
  return span;
}

void run_optimizer(const Arguments& a) {
  const auto rule =
      optim::make_optimizer({.name = a.at(1), .weight_decay = std::stod(a.at(7)), .momentum = std::stod(a.at(8))});
  const DType dtype = dtype_of(a.at(2));
  const std::int64_t steps = std::stoll(a.at(3)), count = std::stoll(a.at(4)), half = count / 2;
  const double lr = std::stod(a.at(5)), grad_scale = std::stod(a.at(6));
  const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
  const auto middle = static_cast<std::size_t>(half * size_of(dtype));
  const std::string input = read_all();
  SHOAL_ASSERT(input.size() == bytes * static_cast<std::size_t>(steps + 1));
  std::vector<std::string> arrays{input.substr(0, bytes)};
  for (std::size_t s = 0; s < rule->state_names().size(); ++s) arrays.emplace_back(bytes, '\0');
  for (std::int64_t step = 1; step <= steps; ++step) {
    const char* const grad = input.data() + static_cast<std::size_t>(step) * bytes;
    rule->step(span_at(arrays, grad, 0, half, dtype), step, lr, grad_scale);
    optim::FlatSpan second = span_at(arrays, grad, middle, count - half, dtype);
    second.weight_decay = 0;
    rule->step(second, step, lr * 0.5, grad_scale);
  }
  for (const std::string& array : arrays) std::cout << array;
}

void print_schedule(const Arguments& a) {
  const optim::Schedule schedule = optim::Schedule::parse(a.at(1));
  const double base = std::stod(a.at(2));
  const std::int64_t total = std::stoll(a.at(3)), warmup = std::stoll(a.at(4)), epoch_steps = std::stoll(a.at(5));
  for (std::int64_t step = 0; step < total; ++step)
    fmt::print("{:a}\n", schedule.learning_rate(base, optim::ScheduleTime{step / epoch_steps, step, total, warmup}));
}

void print_sum(const Arguments& a) {
  const std::string data = read_all();
  const DType dtype = dtype_of(a.at(1));
  optim::ExactSumOfSquares sum;
  sum.add(data.data(), dtype, static_cast<std::int64_t>(data.size()) / size_of(dtype));
  fmt::print("{:a}\n", sum.value());
}

void print_scales() {
  train::LossScaler scaler;
  for (const char step : read_all()) {
    scaler.update(step == '1');
    fmt::print("{:a}\n", scaler.scale());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argv + 1, argv + argc);
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what == "optimizer") run_optimizer(arguments);
  if (what == "schedule") print_schedule(arguments);
  if (what == "sum") print_sum(arguments);
  if (what == "scaler") print_scales();
  return 0;
}
