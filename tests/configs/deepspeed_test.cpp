#include "configs/config_text.h"

namespace shoal::configs {
namespace {

std::string ds(const std::string& keys) { return meaning(deepspeed, "{" + keys + "}"); }
std::string zero(const std::string& keys) { return ds(R"("zero_optimization": {)" + keys + "}"); }

TEST(DeepSpeed, Stages) {
  EXPECT_EQ(ds(""), " --strategy no_shard");
  EXPECT_EQ(zero(R"("stage": 0)"), " --strategy no_shard");
  for (const char* stage : {"1", "2", "3"})
    EXPECT_EQ(zero(std::string(R"("stage": )") + stage), std::string(" --strategy zero") + stage);
  EXPECT_EQ(zero(R"("stage": 4)"), "zero_optimization.stage is 4, but must be 0, 1, 2 or 3");
  EXPECT_EQ(zero(R"("stage": "three")"), "zero_optimization.stage is \"three\", but must be a whole number");
  EXPECT_EQ(ds(R"("zero_optimization": true)"), " --strategy zero1");
  EXPECT_EQ(zero(R"("stage": 3, "mics_shard_size": 2)"), " --strategy hybrid_shard --shard-size 2");
  EXPECT_EQ(zero(R"("stage": 3, "zero_hpz_partition_size": 2)"), " --strategy zero3 --reshard-after-forward 2");
  EXPECT_EQ(zero(R"("stage": 3, "zero_hpz_partition_size": 8)"),
            "zero_optimization.zero_hpz_partition_size is 8, but must divide the 4 ranks");
}

TEST(DeepSpeed, Offload) {
  EXPECT_EQ(zero(R"("stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true})"),
            " --strategy zero2 --offload optimizer");
  EXPECT_EQ(zero(R"("stage": 2, "cpu_offload": true)"), " --strategy zero2 --offload optimizer");
  EXPECT_EQ(zero(R"("stage": 3, "offload_param": {"device": "cpu"})"), " --strategy zero3 --offload params");
  EXPECT_EQ(zero(R"("stage": 3, "offload_param": {"device": "none"})"), " --strategy zero3");
  EXPECT_EQ(zero(R"("stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local"})"),
            "zero_optimization.offload_param is nvme, which cannot be honoured: it must be cpu or none");
  EXPECT_EQ(
      zero(R"("stage": 2, "offload_param": {"device": "cpu"})"),
      "zero_optimization.offload_param contradicts zero_optimization.stage: 2: parameters are offloaded in stage 3 "
      "alone");
  EXPECT_EQ(zero(R"("stage": 0, "offload_optimizer": {"device": "cpu"})"),
            "zero_optimization.offload_optimizer contradicts zero_optimization.stage: 0: the optimizer's state is "
            "offloaded from stage 1 on");
}

TEST(DeepSpeed, Types) {
  const std::string plain = " --strategy no_shard";
  EXPECT_EQ(ds(R"("bf16": {"enabled": true})"), plain + " --param-dtype bf16");
  EXPECT_EQ(ds(R"("bf16": {"enabled": "auto"})"), plain);
  EXPECT_EQ(ds(R"("fp16": {"enabled": true}, "bf16": {"enabled": true})"),
            "bf16.enabled contradicts fp16.enabled: the one means --param-dtype bf16, the other --param-dtype fp16");
  EXPECT_EQ(ds(R"("bf16": {"enabled": true}, "communication_data_type": "bfp16")"),
            plain + " --param-dtype bf16 --reduce-dtype bf16");
  EXPECT_EQ(ds(R"("communication_data_type": "int8")"),
            "communication_data_type is 'int8', but must be fp32, fp16 or bf16");
  EXPECT_EQ(ds(R"("bf16": {"enabled": true, "bf16_optimizer_states": true})"),
            "bf16.bf16_optimizer_states cannot be honoured: masters, gradients' sums and states are fp32");
}

TEST(DeepSpeed, LossScale) {
  const auto fp16 = [](const std::string& keys) { return ds(R"("fp16": {"enabled": true)" + keys + "}").substr(38); };
  ASSERT_EQ(ds(R"("fp16": {"enabled": true})").substr(0, 38), " --strategy no_shard --param-dtype fp1");
  EXPECT_EQ(fp16(""), "6 --initial-scale-power 16 --loss-scale-window 1000 --hysteresis 2 --min-loss-scale 1");
  EXPECT_EQ(fp16(R"(, "loss_scale": 128)"), "6 --loss-scale 128");
  EXPECT_EQ(fp16(R"(, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500, "hysteresis": 3,
                      "consecutive_hysteresis": true, "min_loss_scale": 0.5)"),
            "6 --initial-scale-power 12 --loss-scale-window 500 --hysteresis 3 --min-loss-scale 0.5 "
            "--consecutive-hysteresis");
  EXPECT_EQ(fp16(R"(, "initial_scale_power": "auto", "loss_scale_window": "auto")"),
            "6 --hysteresis 2 --min-loss-scale 1");
  EXPECT_EQ(ds(R"("fp16": {"enabled": false, "loss_scale_window": 500})"), " --strategy no_shard");
  EXPECT_EQ(ds(R"("fp16": {"enabled": true, "hysteresis": "much"})"),
            "fp16.hysteresis is \"much\", but must be a number");
}

TEST(DeepSpeed, Optimizers) {
  const auto optimizer = [](const std::string& type, const std::string& params) {
    return ds(R"("optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}}").substr(20);
  };
  EXPECT_EQ(optimizer("Adam", R"("lr": 1e-4)"), " --optimizer adamw --lr 0.0001");  // as DeepSpeed's own does
  EXPECT_EQ(optimizer("Adam", R"("lr": 1e-4, "adam_w_mode": false)"), " --optimizer adam --lr 0.0001");
  EXPECT_EQ(optimizer("AdamW", R"("lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": 0.1)"),
            " --optimizer adamw --weight-decay 0.1");
  EXPECT_EQ(optimizer("AdamW", R"("betas": [0.9, 0.95], "eps": 1e-6)"),
            " --optimizer adamw --betas 0.9,0.95 --eps 1e-06 --lr 0.001");
  EXPECT_EQ(optimizer("SGD", R"("lr": 0.1, "momentum": 0.9)"), " --optimizer sgd --momentum 0.9 --lr 0.1");
  EXPECT_EQ(optimizer("Adadelta", ""), " --optimizer adadelta --lr 1");
  EXPECT_EQ(ds(R"("optimizer": {"type": "SGD", "params": {"lr": 0.1, "nesterov": true}})"),
            "optimizer.params.nesterov cannot be honoured: there is no such form of SGD here");
  EXPECT_EQ(ds(R"("optimizer": {"type": "Lamb"})"),
            "optimizer.type is Lamb, which cannot be honoured: the optimizers are Adam, AdamW, SGD and Adadelta");
  EXPECT_EQ(ds(R"("optimizer": {"params": {}})"), "optimizer.type is missing");
  EXPECT_EQ(ds(R"("optimizer": {"type": "Adam", "params": {"weight_dacay": 1}})"),
            "optimizer.params.weight_dacay is no known key; did you mean 'weight_decay'?");
  EXPECT_EQ(ds(R"("optimizer": {"type": "Adam", "params": {"betas": 0.9}})"),
            "optimizer.params.betas is 0.9, but must be a list of numbers");
}

TEST(DeepSpeed, Schedulers) {
  const auto scheduler = [](const std::string& type, const std::string& params) {
    return meaning(deepspeed, R"({"scheduler": {"type": ")" + type + R"(", "params": {)" + params + "}}}").substr(20);
  };
  EXPECT_EQ(scheduler("WarmupLR", R"("warmup_max_lr": 0.01, "warmup_num_steps": 7)"),
            " --lr 0.01 --warmup 7 --warmup-type log --schedule constant");
  EXPECT_EQ(scheduler("WarmupLR", R"("warmup_max_lr": 0.01, "warmup_num_steps": 7, "warmup_type": "linear")"),
            " --lr 0.01 --warmup 7 --schedule constant");
  EXPECT_EQ(scheduler("WarmupLR", R"("warmup_max_lr": 0.5, "warmup_min_lr": 0.125, "warmup_num_steps": 7)"),
            " --lr 0.5 --warmup 7 --warmup-type log --warmup-min-ratio 0.25 --schedule constant");
  EXPECT_EQ(scheduler("WarmupDecayLR", R"("total_num_steps": 90)"),
            " --max-steps 90 --lr 0.001 --warmup 1000 --warmup-type log --schedule linear");
  EXPECT_EQ(
      scheduler("WarmupDecayLR", R"("total_num_steps": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto")"),
      " --schedule linear");
  EXPECT_EQ(scheduler("WarmupCosineLR", R"("total_num_steps": 90, "warmup_num_steps": 9, "cos_min_ratio": 0.1,
                                            "warmup_min_ratio": 0.5)"),
            " --max-steps 90 --warmup 9 --warmup-type log --warmup-min-ratio 0.5 --schedule cosine:0.1");
  EXPECT_EQ(ds(R"("scheduler": {"type": "WarmupDecayLR", "params": {}})"),
            "scheduler.params.total_num_steps is missing; \"auto\" leaves it to the command line");
  EXPECT_EQ(ds(R"("scheduler": {"type": "OneCycle", "params": {}})"),
            "scheduler.type is OneCycle, which cannot be honoured: the schedulers are WarmupLR, WarmupDecayLR and "
            "WarmupCosineLR");
  // The rate is the scheduler's where it names one, else the optimizer's.
  const std::string adam = R"("optimizer": {"type": "Adam", "params": {"lr": 0.5}}, )";
  EXPECT_NE(ds(adam + R"("scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.25}})").find("--lr 0.25"),
            std::string::npos);
  EXPECT_NE(ds(adam + R"("scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}})").find("--lr 0.5"),
            std::string::npos);
  EXPECT_EQ(
      warning_of(deepspeed(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.1}}})")),
      "the warm-up does not begin at scheduler.params.warmup_min_lr, since the highest rate is not in this block");
}

TEST(DeepSpeed, Recomputation) {
  const auto block = [](const std::string& keys) {
    return ds(R"("activation_checkpointing": {)" + keys + "}").substr(20);
  };
  EXPECT_EQ(block(R"("partition_activations": true)"), " --activation-checkpoint full");
  EXPECT_EQ(block(R"("cpu_checkpointing": true)"), " --activation-checkpoint full --activation-offload");
  EXPECT_EQ(block(R"("cpu_checkpointing": false)"), "");
  EXPECT_EQ(warning_of(deepspeed(R"({"activation_checkpointing": {"profile": false}})")),
            "activation_checkpointing switches nothing on: give --activation-checkpoint full to recompute");
}

TEST(DeepSpeed, WhatIsRefusedAndWhatIsLeftOut) {
  EXPECT_EQ(ds(R"("amp": {"enabled": true})"),
            "amp cannot be honoured: parameters are cast as a whole: use bf16 or fp16");
  EXPECT_EQ(ds(R"("amp": {"enabled": false})"), " --strategy no_shard");
  EXPECT_EQ(ds(R"("sparse_gradients": true)"),
            "sparse_gradients cannot be honoured: gradients and attention are dense");
  EXPECT_EQ(ds(R"("gradient_cliping": 1)"), "gradient_cliping is no known key; did you mean 'gradient_clipping'?");
  EXPECT_EQ(ds(R"("gradient_clipping": "high")"), "gradient_clipping is \"high\", but must be a number");
  EXPECT_EQ(ds(R"("gradient_clipping": 0.5, "steps_per_print": 1e3)"),
            " --strategy no_shard --clip-grad-norm 0.5 --log-every 1000");
  EXPECT_EQ(
      deepspeed(R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "overlap_comm": true}})").left_out,
      std::vector<std::string>{"zero_optimization.reduce_bucket_size"});
}

TEST(DeepSpeed, FilesThatCannotBeRead) {
  EXPECT_EQ(
      meaning(deepspeed, "{\n  \"zero_optimization\": {,\n}"),
      "no JSON at line 2, column 25: syntax error while parsing object key - unexpected ','; expected string literal");
  EXPECT_EQ(meaning(deepspeed, ""),
            "no JSON at line 1, column 1: syntax error while parsing value - unexpected end of "
            "input; expected '[', '{', or a literal");
  EXPECT_EQ(meaning(deepspeed, R"({"bf16": {"enabled": true, "enabled": false}})"),
            "the key 'enabled' is there twice in one block");
  EXPECT_EQ(meaning(deepspeed, "[]"), "the file is no block of keys ({...})");
  EXPECT_THROW(translate_deepspeed("nowhere.json", 1), OptionError);
}

}  // namespace
}  // namespace shoal::configs
