// Replicas that differ are told apart and named.
#include "fsdp/replica_check.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/harness.h"
#include "fsdp/mesh_check.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

TEST(ReplicaHash, TellsElementsPlacesAndSignsApart) {
  at::Tensor x = at::randn({5'000'000});  // three blocks
  const std::uint64_t hash = fsdp::hash_of(x);
  EXPECT_EQ(fsdp::hash_of(x.clone()), hash);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{3'000'000}, x.numel() - 1}) {
    at::Tensor other = x.clone();
    other[i] = std::nextafter(other[i].item<float>(), 10.0f);
    EXPECT_NE(fsdp::hash_of(other), hash) << i;
  }
  at::Tensor swapped = x.clone();
  swapped[7] = x[8];
  swapped[8] = x[7];
  EXPECT_NE(fsdp::hash_of(swapped), hash);
  EXPECT_NE(fsdp::hash_of(at::zeros({4})), fsdp::hash_of(-at::zeros({4})));
  EXPECT_NE(fsdp::hash_of(at::zeros({4})), fsdp::hash_of(at::zeros({5})));
  at::Tensor blocks = at::cat({x.narrow(0, 1 << 21, 1 << 21), x.narrow(0, 0, 1 << 21)});
  EXPECT_NE(fsdp::hash_of(blocks), fsdp::hash_of(x.narrow(0, 0, 1 << 22)));
  for (const auto dtype : {at::kDouble, at::kHalf, at::kByte}) {
    const at::Tensor values = at::arange(100).to(dtype), before = values.clone();
    at::Tensor changed = values.clone();
    changed[50] = 3;
    EXPECT_NE(fsdp::hash_of(values), fsdp::hash_of(changed));
    EXPECT_TRUE(values.equal(before));  // 64-bit elements are their own bits
  }
}

struct Replicas {
  TestModel model;
  std::unique_ptr<comm::DeviceMesh> mesh;
  std::unique_ptr<fsdp::FullyShardedModule> fsdp;
};

Replicas replicate(comm::ProcessGroup& world, int shard_size, fsdp::FullyShardOptions options) {
  Replicas r{.model = make_mlp()};
  fill_parameters(*r.model.module);
  r.mesh = std::make_unique<comm::DeviceMesh>(world, device_world(world), shard_size);
  options.device = test_device();
  r.fsdp = fsdp::fully_shard(r.model.module, *r.mesh, *fsdp::parse_wrap_policy("class:Block"), options);
  return r;
}

void train(Replicas& r) {
  const at::Tensor x = at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kDouble));
  r.fsdp->run([&] { r.model.forward(x).sum().backward(); });
  r.fsdp->zero_grad();
}

void corrupt(Replicas& r, const std::string& unit) {
  const at::NoGradGuard no_grad;
  r.fsdp->runtime().for_each_flat([&](const fsdp::FlatParameter& flat) {
    if (flat.unit().name() == unit) at::Tensor(flat.master()).select(0, 5).add_(1e-9);
  });
}

void expect_named(const std::function<void()>& body, const std::vector<std::string>& words) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const CommunicationError& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " in: " << error.what();
  }
}

TEST(ReplicaCheck, ADifferenceAtTheStartIsNamed) {
  for (const int ranks : {2, 3})
    on_ranks(ranks, [&](comm::ProcessGroup& world) {
      Replicas r = replicate(world, 1, {});
      if (world.rank() == 1) corrupt(r, "blocks.1");
      expect_named([&] { train(r); },
                   {"before run 1", "rank 1 on", "unit 'blocks.1' than rank 0", "shard 0 of 1", "--resume"});
    });
}

TEST(ReplicaCheck, EveryShardIsComparedWithItsOwnReplicas) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    Replicas r = replicate(world, 2, {});
    if (world.rank() == 3) corrupt(r, "blocks.2");
    expect_named([&] { train(r); }, {"rank 1 on", "rank 3 on", "unit 'blocks.2'", "shard 1 of 2"});
  });
}

TEST(ReplicaCheck, ChecksEverySoManyRunsOfTraining) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Replicas r = replicate(world, 1, {.check_replicas_every = 2});
    train(r);
    {
      const at::NoGradGuard no_grad;  // does not count
      const at::Tensor x = at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kDouble));
      r.fsdp->run([&] { r.model.forward(x); });
    }
    if (world.rank() == 1) corrupt(r, "(root)");
    train(r);
    expect_named([&] { train(r); }, {"before run 3", "unit '(root)'"});
  });
}

TEST(ReplicaCheck, MayBeSwitchedOffAndHasNothingToDoWithoutReplicas) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Replicas off = replicate(world, 1, {.check_replicas_at_start = false});
    if (world.rank() == 1) corrupt(off, "blocks.1");
    train(off);
    Replicas sharded = replicate(world, 2, {.check_replicas_every = 1});
    if (world.rank() == 1) corrupt(sharded, "blocks.1");
    train(sharded);
  });
}

// Two groups under each other's name: every replica for itself.
class SwappedGroup final : public comm::ProcessGroup {
 public:
  explicit SwappedGroup(comm::ProcessGroup& group) : group_(&group) {}
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const char* backend() const override { return group_->backend(); }
  std::unique_ptr<comm::Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) override {
    return group_->all_gather(send, recv, count, dtype);
  }
  std::unique_ptr<comm::Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype,
                                             comm::ReduceOp op) override {
    return group_->reduce_scatter(send, recv, count, dtype, op);
  }
  std::unique_ptr<comm::Work> all_reduce(void* data, std::int64_t count, DType dtype, comm::ReduceOp op) override {
    return group_->all_reduce(data, count, dtype, op);
  }
  std::unique_ptr<comm::Work> broadcast(void* data, std::int64_t count, DType dtype, int root) override {
    return group_->broadcast(data, count, dtype, root);
  }
  std::unique_ptr<comm::Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) override {
    return group_->all_to_all(send, recv, count, dtype);
  }
  void barrier() override { group_->barrier(); }
  std::unique_ptr<comm::ProcessGroup> split(int color, const comm::GroupOptions& options) override {
    return group_->split(color == group_->rank() % 2 ? group_->rank() / 2 : group_->rank() % 2, options);
  }

 private:
  comm::ProcessGroup* group_;
};

TEST(MeshCheck, GroupsOfOtherRanksAreAnError) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    comm::DeviceMesh right(world, device_world(world), 2);
    fsdp::check_mesh(right, test_device());
    SwappedGroup swapped(device_world(world));
    comm::DeviceMesh wrong(world, swapped, 2);
    expect_named([&] { fsdp::check_mesh(wrong, test_device()); }, {"group has the ranks", "--shard-size"});
  });
}

TEST(MeshCheck, TheTopologyIsTold) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    comm::DeviceMesh hybrid(world, device_world(world), 2), full(world, device_world(world), 4);
    const std::string text = fsdp::topology(hybrid);
    EXPECT_TRUE(text.starts_with("2 x 2 ranks (replicate x shard); shard groups 0,1 on ")) << text;
    EXPECT_NE(text.find("; replicate groups 0,2 on "), std::string::npos) << text;
    const std::string whole = fsdp::topology(full);
    EXPECT_TRUE(whole.starts_with("1 x 4 ranks (replicate x shard); shard groups 0-3 on ")) << whole;
    EXPECT_EQ(whole.find("replicate groups"), std::string::npos) << whole;
  });
}

}  // namespace
}  // namespace shoal::testing
