// Trains a TorchScript model for tests/interop/script_training_test.py.
//
//   script_training MODEL.pt BATCHES STEPS BATCH LENGTH LR PARAM_DTYPE OUTPUT.pt
//
// BATCHES: for each step, and once more for an evaluation, the inputs and then the targets, int64 [BATCH, LENGTH]. Rank
// r of n takes the r-th part of each batch, and draws dropout's masks from the seed 1000 * step + r. AdamW, no weight
// decay. Prints each step's mean loss, then the evaluation: loss_sum correct count. Writes the weights by name.
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "comm/device_mesh.h"
#include "comm/mpi_process_group.h"
#include "core/error.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "launch/mpi_session.h"
#include "models/script_model.h"

namespace {

using namespace shoal;

struct Arguments {
  std::string model, batches;
  std::int64_t steps, batch, length;
  double lr;
  std::string param_dtype, output;
};

class Batches {
 public:
  explicit Batches(const Arguments& arguments)
      : values_(torch::empty({arguments.steps + 1, 2, arguments.batch, arguments.length}, torch::kLong)) {
    std::ifstream file(arguments.batches, std::ios::binary);
    file.read(static_cast<char*>(values_.data_ptr()), values_.numel() * 8);
    if (!file) throw DataError("{}: too short", arguments.batches);
  }

  data::Batch part(std::int64_t step, const comm::ProcessGroup& world) const {
    const std::int64_t samples = values_.size(2), rank = world.rank(), ranks = world.size();
    const at::Tensor mine = values_[step].slice(1, samples * rank / ranks, samples * (rank + 1) / ranks);
    return {mine[0], mine[1]};
  }

 private:
  at::Tensor values_;
};

void write_weights(fsdp::FullyShardedModule& sharded, const torch::nn::Module& module, const std::string& path) {
  c10::Dict<std::string, at::Tensor> weights;
  sharded.summon_full_params([&] {
    for (const auto& item : module.named_parameters()) weights.insert(item.key(), item.value().detach().clone());
    for (const auto& item : module.named_buffers()) weights.insert(item.key(), item.value().clone());
  });
  const std::vector<char> bytes = torch::pickle_save(weights);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void train(const Arguments& arguments, comm::ProcessGroup& world) {
  const Batches batches(arguments);
  const models::ModelEntry entry = models::load_script_model(arguments.model);
  const auto model = entry.make(models::complete(entry, {}));
  comm::DeviceMesh mesh(world, world, world.size());
  fsdp::FullyShardOptions options;
  if (arguments.param_dtype == "bf16") options.mixed_precision.param_dtype = at::kBFloat16;
  const auto sharded = fsdp::fully_shard(model->module(), mesh, *fsdp::parse_wrap_policy(entry.defaults.wrap), options);
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "adamw"}));
  model->set_training(true);
  for (std::int64_t step = 0; step < arguments.steps; ++step) {
    models::LossSum loss;
    torch::manual_seed(static_cast<std::uint64_t>(1000 * step + world.rank()));
    sharded->run([&] {
      loss = model->loss(batches.part(step, world));
      loss.sum.backward();
    });
    const auto count = static_cast<double>(comm::all_reduce(world, loss.count, comm::ReduceOp::sum));
    const double sum = comm::all_reduce(world, loss.sum.item<double>(), comm::ReduceOp::sum);
    if (world.rank() == 0) std::printf("%.17g\n", sum / count);
    optimizer.step(arguments.lr, 1 / count);
  }
  model->set_training(false);
  models::EvalSum eval;
  const at::NoGradGuard no_grad;
  sharded->run([&] { eval = model->evaluate(batches.part(arguments.steps, world)); });
  eval.loss_sum = comm::all_reduce(world, eval.loss_sum, comm::ReduceOp::sum);
  eval.correct = comm::all_reduce(world, eval.correct, comm::ReduceOp::sum);
  eval.count = comm::all_reduce(world, eval.count, comm::ReduceOp::sum);
  if (world.rank() == 0)
    std::printf("%.17g %lld %lld\n", eval.loss_sum, static_cast<long long>(eval.correct),
                static_cast<long long>(eval.count));
  if (world.rank() == 0) std::fputs(sharded->print().c_str(), stderr);
  write_weights(*sharded, *model->module(), arguments.output + (world.rank() == 0 ? "" : ".other"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const launch::MpiSession session(&argc, &argv);
    const Arguments arguments{
        argv[1], argv[2], std::stol(argv[3]), std::stol(argv[4]), std::stol(argv[5]), std::stod(argv[6]),
        argv[7], argv[8]};
    comm::MpiProcessGroup world(MPI_COMM_WORLD);
    torch::set_num_threads(1);
    train(arguments, world);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    launch::abort_job(ExitCode::internal);
  }
}
