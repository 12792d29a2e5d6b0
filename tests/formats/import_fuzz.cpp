// What must hold for any bytes in the place of a file that another framework has written: a CheckpointError, or tensors
// that lie within the file; and no memory for what is only claimed. The first byte says what the rest is:
// d a ".metadata" of torch.distributed.checkpoint, t a file of torch.save, s one of safetensors.
// For libFuzzer, and for the driver in tests/checkpoint/checkpoint_fuzz_driver.cpp.
#include <cstring>
#include <fstream>
#include <iterator>

#include "checkpoint/checkpoint_fuzz.h"
#include "checkpoint/saved_optimizer.h"
#include "formats/dcp_metadata.h"
#include "formats/safetensors.h"
#include "formats/torch_zip_reader.h"

namespace {

using namespace shoal;
using namespace shoal::formats;
using shoal::testing::require;

std::string golden(const char* name) {
  std::ifstream file(std::string(SHOAL_GOLDENS) + "/" + name, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  require(!bytes.empty(), name);
  return bytes;
}

ByteSource source_of(const std::string& bytes) {
  return {"fuzz", bytes.size(), [&bytes](std::uint64_t offset, void* into, std::size_t count) {
            require(offset <= bytes.size() && count <= bytes.size() - offset, "reads behind the end");
            std::memcpy(into, bytes.data() + offset, count);
          }};
}

// The last element, whatever the strides.
void check_within(const StoredTensor& tensor, std::size_t file_bytes) {
  const auto bytes = bytes_of(tensor.spec.dtype, tensor.spec.shape);
  require(bytes.has_value(), "an impossible shape");
  if (*bytes == 0) return;
  std::uint64_t end = static_cast<std::uint64_t>(*bytes);
  if (!tensor.strides.empty()) {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < tensor.strides.size(); ++i)
      last += static_cast<std::uint64_t>((tensor.spec.shape[i] - 1) * tensor.strides[i]);
    end = (last + 1) * static_cast<std::uint64_t>(size_of(tensor.spec.dtype));
  }
  require(tensor.offset <= file_bytes && end <= file_bytes - tensor.offset, "a tensor that leaves the file");
}

void check_metadata(const std::string& bytes) {
  for (const DcpEntry& entry : read_dcp_metadata(bytes, "fuzz")) {
    require(!entry.path.empty(), "an entry without a path");
    for (const DcpChunk& chunk : entry.chunks) require(!chunk.place.file.empty(), "a chunk that is nowhere");
  }
}

void check_archive(const std::string& bytes) {
  TorchArchive archive(source_of(bytes), checkpoint::is_training_global);
  StoredTensors notes;
  const StoredTensors stored = tensors_of(archive, find_state_dict(archive, "", notes));
  for (const StoredTensor& tensor : stored.tensors) check_within(tensor, bytes.size());
  for (const char* key : {"optimizer_state_dict", "base_optimizer_state"})
    if (const PickleNode* optimizer = archive.find(archive.root(), key)) {
      checkpoint::OptimizerFacts facts;
      for (const StoredTensor& tensor : checkpoint::read_saved_optimizer(archive, *optimizer, stored.tensors, facts))
        check_within(tensor, bytes.size());
    }
}

void check_safetensors(const std::string& bytes) {
  for (const StoredTensor& tensor : read_safetensors_header(source_of(bytes)).tensors)
    check_within(tensor, bytes.size());
}

std::string safetensors_seed() {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + std::string(26, 'x');
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {"d" + golden("dcp_torch-2.1.2/.metadata"),
          "d" + golden("dcp_torch-2.15.0/.metadata"),
          "t" + golden("zero2_deepspeed-0.19.8.pt"),
          "t" + golden("zero3_deepspeed-0.19.8/global_step3/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"),
          "t" + golden("zero2_deepspeed-0.19.8/global_step3/mp_rank_00_model_states.pt"),
          "s" + safetensors_seed()};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const shoal::testing::FuzzChecks checks{{'d', check_metadata}, {'t', check_archive}, {'s', check_safetensors}};
  return shoal::testing::check_input(checks, data, size);
}
