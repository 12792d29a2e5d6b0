#include "fsdp/deferred_recorder.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "core/hash.h"

namespace shoal::fsdp {
namespace {

using torch_internals::covers_storage;
using torch_internals::storage_identity;
using torch_internals::view_of;

// What is smaller is made at once where it can be: tables that a constructor fills or reads through a pointer.
constexpr std::size_t kSmall = std::size_t{1} << 20;

const std::string kWhy =
    "the values of this tensor are not made yet: DeferredInit recorded how they are made. Use it inside "
    "DeferredInit::record(), by LibTorch's operators, or after fully_shard()";

// They write to each element of their first argument, and read none of them.
constexpr std::array<std::string_view, 12> kInitialisers{
    "aten::uniform_",     "aten::normal_", "aten::random_",     "aten::bernoulli_",
    "aten::exponential_", "aten::cauchy_", "aten::log_normal_", "aten::fill_",
    "aten::geometric_",   "aten::zero_",   "aten::copy_",       "shoal::normal_by_place_"};

bool is_initialiser(const c10::OperatorHandle& op) {
  return std::find(kInitialisers.begin(), kInitialisers.end(), op.operator_name().name) != kInitialisers.end();
}

// Of their tensor arguments the shape alone counts.
bool takes_shapes(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  return name.ends_with("_like") || name.starts_with("aten::new_");
}

std::span<const c10::IValue> arguments_of(const torch_internals::OperatorCall& call) {
  return std::span(call.stack()).last(call.op().schema().arguments().size());
}

at::Generator generator_among(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& value : arguments)
    if (value.isGenerator() && value.toGenerator().defined()) return value.toGenerator();
  return at::detail::getDefaultCPUGenerator();
}

// Whether tensors, devices and generators are such that the call can be previewed and made later.
bool can_be_deferred(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& value : arguments)
    if (value.isDevice() && !value.toDevice().is_cpu()) return false;
  for (const at::Tensor& tensor : defined_tensors(arguments))
    if (!torch_internals::is_plain(tensor)) return false;
  return generator_among(arguments).device().is_cpu() && obstacle_to_replay(arguments).empty();
}

// Memory that belongs to somebody else, as that of from_blob(), must be written to, not replaced.
bool own_what_they_write(const OperatorTraits& traits, std::span<const c10::IValue> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (const at::Tensor& tensor : defined_tensors(arguments.subspan(i, 1)))
      if (traits.writes[i] && !tensor.storage().resizable()) return false;
  return true;
}

std::string text_of(const torch_internals::View& view) {
  return fmt::format("{}[{}][{}]+{}", c10::toString(view.dtype), fmt::join(view.sizes, ","),
                     fmt::join(view.strides, ","), view.offset);
}

}  // namespace

std::optional<int> DeferredRecorder::memory_of(const at::Tensor& tensor) const {
  const auto found = hollow_.find(storage_identity(tensor));
  return found != hollow_.end() ? std::optional(found->second.memory) : std::nullopt;
}

bool DeferredRecorder::needs_deferred(const c10::OperatorHandle& op, const OperatorTraits& traits,
                                      Arguments arguments) const {
  if (takes_shapes(op) && !traits.writes_any) return false;
  const auto tensors = defined_tensors(arguments);
  return std::any_of(tensors.begin(), tensors.end(), [this](const at::Tensor& t) { return is_deferred(t); });
}

void DeferredRecorder::call(torch_internals::OperatorCall& call) {
  const c10::OperatorHandle& op = call.op();
  const OperatorTraits& traits = traits_of(op);
  const Arguments arguments = arguments_of(call);
  if (!can_be_deferred(arguments)) return run_at_once(call, traits);
  const bool makes_now = !traits.random && !needs_deferred(op, traits, arguments);
  if (makes_now && (traits.writes_any || !traits.makes_tensors)) return call.run();
  const std::optional<Preview> preview = Preview::of(op, arguments);
  if (!preview) return run_at_once(call, traits);
  if (makes_now && preview->fresh_bytes() <= kSmall) return call.run();
  if (preview->resizes_arguments()) return run_at_once(call, traits);
  if (preview->reshapes_arguments()) return op.hasTag(at::Tag::inplace_view) ? call.run() : run_at_once(call, traits);
  if (!preview->makes_memory() && !traits.writes_any && traits.makes_tensors) return call.run();  // a view
  if (!own_what_they_write(traits, arguments)) return run_at_once(call, traits);
  record(call, traits, *preview);
}

void DeferredRecorder::run_at_once(torch_internals::OperatorCall& call, const OperatorTraits& traits) {
  const Arguments arguments = arguments_of(call);
  for (const at::Tensor& tensor : defined_tensors(arguments))
    if (const auto found = hollow_.find(storage_identity(tensor)); found != hollow_.end()) fill(Hollow(found->second));
  if (const at::Generator generator = generator_among(arguments); traits.random && generator.device().is_cpu())
    program_.draws().settle(generator);
  call.run();
}

void DeferredRecorder::record(torch_internals::OperatorCall& call, const OperatorTraits& traits,
                              const Preview& preview) {
  const c10::OperatorHandle& op = call.op();
  std::vector<c10::IValue> arguments(arguments_of(call).begin(), arguments_of(call).end());
  const at::Generator generator = generator_among(arguments);
  std::vector<DeferredProgram::Write> writes = write_to_arguments(op, traits, arguments);
  note(op.operator_name().name + "." + op.operator_name().overload_name);
  for (c10::IValue& value : arguments) {
    if (value.isGenerator()) value = {};  // every draw is made with the default generator
    if (!defined_tensors({&value, 1}).empty()) continue;
    std::ostringstream text;
    text << value;
    note(text.str());
  }
  std::vector<int> reads;
  RecordedCall recorded(op, arguments, [&](const at::Tensor& tensor) {
    const auto memory = memory_of(tensor);
    const auto overwritten = [&](const DeferredProgram::Write& w) { return w.memory == memory && w.overwrites; };
    const bool counts = !takes_shapes(op) && std::none_of(writes.begin(), writes.end(), overwritten);
    const int place = place_of(tensor, counts);
    if (counts) reads.push_back(program_.memory_at(place));
    return TensorRef{.call = place};
  });
  DeferredProgram::Call made{.op = std::move(recorded), .reads = std::move(reads), .writes = std::move(writes)};
  if (traits.random) made.draw = program_.draws().append(generator, program_.next_call());
  std::vector<c10::IValue> results = make_results(preview, made);
  program_.append(std::move(made));
  call.stack().resize(call.stack().size() - arguments.size());
  call.stack().insert(call.stack().end(), results.begin(), results.end());
}

std::vector<DeferredProgram::Write> DeferredRecorder::write_to_arguments(const c10::OperatorHandle& op,
                                                                         const OperatorTraits& traits,
                                                                         Arguments arguments) {
  const auto tensors = defined_tensors(arguments);
  std::vector<DeferredProgram::Write> writes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!traits.writes[i]) continue;
    for (const at::Tensor& tensor : defined_tensors(arguments.subspan(i, 1))) {
      const auto uses = std::count_if(tensors.begin(), tensors.end(), [&](const at::Tensor& other) {
        return storage_identity(other) == storage_identity(tensor);
      });
      const bool overwrites = is_initialiser(op) && uses == 1 && covers_storage(tensor);
      writes.push_back({make_hollow(tensor, /*keep_values=*/!overwrites), overwrites});
    }
  }
  return writes;
}

// Values from outside of the recording are copied: their owner may change or free them.
int DeferredRecorder::place_of(const at::Tensor& tensor, bool reads) {
  torch_internals::View view = view_of(tensor);
  std::optional<int> memory = memory_of(tensor);
  if (!memory && reads) {
    const at::NoGradGuard no_grad;
    const at::Tensor copy = tensor.detach().clone();
    const bool wrapped = view.wrapped_number;
    view = view_of(copy);
    view.wrapped_number = wrapped;
    const c10::Storage& storage = copy.storage();
    note({static_cast<const char*>(storage.data()), storage.nbytes()});
    memory = program_.add_memory(storage.nbytes(), storage);
  } else if (!memory) {
    memory = program_.add_memory(tensor.storage().nbytes(), std::nullopt);
  }
  note(fmt::format("{} in {}", text_of(view), *memory));
  return program_.add_place(*memory, std::move(view));
}

std::vector<c10::IValue> DeferredRecorder::make_results(const Preview& preview, DeferredProgram::Call& call) {
  std::vector<const void*> fresh;
  std::vector<c10::IValue> results = preview.results([&](std::size_t bytes) {
    const c10::Storage storage = torch_internals::hollow_storage(bytes, kWhy);
    const int memory = program_.add_memory(bytes, std::nullopt);
    call.writes.push_back({.memory = memory, .overwrites = true});
    fresh.push_back(storage.unsafeGetStorageImpl());
    hollow_.emplace(fresh.back(), Hollow{storage, memory});
    return storage;
  });
  const auto tensors = tensors_among(results);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const void* const storage = storage_identity(tensors[i]);
    if (std::find(fresh.begin(), fresh.end(), storage) != fresh.end())
      call.made.push_back({static_cast<int>(i), hollow_.at(storage).memory, view_of(tensors[i])});
  }
  return results;
}

int DeferredRecorder::make_hollow(const at::Tensor& tensor, bool keep_values) {
  if (const auto memory = memory_of(tensor)) return *memory;
  const c10::Storage storage = tensor.storage();
  c10::Storage values = torch_internals::take_memory(storage, kWhy);
  if (keep_values) note({static_cast<const char*>(values.data()), values.nbytes()});
  const int memory = program_.add_memory(storage.nbytes(), keep_values ? std::optional(values) : std::nullopt);
  hollow_.emplace(storage_identity(tensor), Hollow{storage, memory});
  return memory;
}

void DeferredRecorder::fill(const Hollow& hollow) {
  const at::NoGradGuard no_grad;
  torch_internals::give_memory(hollow.storage, program_.values(hollow.memory));
  hollow_.erase(hollow.storage.unsafeGetStorageImpl());
}

at::Tensor DeferredRecorder::values(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return torch_internals::tensor_in(program_.values(memory_of(tensor).value()), view_of(tensor));
}

void DeferredRecorder::fill_living() {
  std::vector<Hollow> living;
  for (const auto& [storage, hollow] : hollow_)
    if (hollow.storage.use_count() > 1) living.push_back(hollow);
  std::sort(living.begin(), living.end(), [](const Hollow& a, const Hollow& b) { return a.memory < b.memory; });
  for (const Hollow& hollow : living) fill(hollow);
}

std::uint64_t DeferredRecorder::hash() const { return hash_combine(hash_, program_.draws().hash()); }

void DeferredRecorder::note(const std::string& text) { hash_ = hash_combine(hash_, hash_string(text)); }

}  // namespace shoal::fsdp
