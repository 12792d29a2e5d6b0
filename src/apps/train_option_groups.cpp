#include "apps/train_option_groups.h"

#include <boost/program_options.hpp>
#include <charconv>
#include <sstream>
#include <string_view>

#include "apps/option_values.h"
#include "apps/train_optimizer_options.h"
#include "core/check.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;
using train::TrainOptions;

// A depth, or the words of FSDP1.
po::value_semantic* prefetch_value(train::ShardingOptions& into) {
  return po::value<std::string>()->value_name("N")->notifier([&into](const std::string& text) {
    into.backward_prefetch_post = text == "post";
    if (text == "pre" || text == "post" || text == "none") {
      into.backward_prefetch = text == "none" ? 0 : 1;
      return;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into.backward_prefetch);
    SHOAL_CHECK(error == std::errc() && end == text.data() + text.size(), OptionError,
                "--backward-prefetch takes pre, post, none or a number of units, not '{}'", text);
  });
}

po::value_semantic* ids_value(std::vector<std::int64_t>& into) {
  return po::value<std::string>()->value_name("ID,...")->notifier([&into](const std::string& text) {
    std::istringstream stream(text);
    into.clear();
    for (std::string item; std::getline(stream, item, ',');) {
      std::int64_t id = -1;
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
      SHOAL_CHECK(error == std::errc() && end == item.data() + item.size() && id >= 0, OptionError,
                  "--special-tokens takes token ids with commas between them, not '{}'", text);
      into.push_back(id);
    }
  });
}

std::string model_help() {
  std::string text = "the model:";
  for (const models::ModelEntry& entry : models::model_entries())
    text += fmt::format("\n{}: {}", entry.name, entry.summary);
  return text;
}

// Read before all others, since what they say depends on them.
po::options_description config_options() {
  po::options_description d("Configs: docs/migrating.md");
  const auto file = [] { return po::value<std::string>()->value_name("FILE"); };
  d.add_options()                                                   //
      ("config", file(), "more options, as lines of name = value")  //
      ("accelerate-config", file(),
       "what accelerate's YAML file says, in the words of these options; they win over it")  //
      ("deepspeed-config", file(), "the same for DeepSpeed's JSON file");
  return d;
}

po::options_description model_options(TrainOptions& o) {
  models::ModelOptions& shape = o.model.shape;
  po::options_description d("Model");
  d.add_options()                                                                                                     //
      ("model", value(o.model.name, "NAME"), model_help().c_str())                                                    //
      ("model-plugin", path_value(o.model.plugin), "a shared object that brings models of its own: docs/plugins.md")  //
      ("model-script", path_value(o.model.script), "a model made in Python (TorchScript): docs/from_python.md")       //
      ("layers", count_value(shape.layers, "N", "layers"), "of the model, instead of what its name stands for")       //
      ("heads", count_value(shape.heads, "N", "heads"), "attention heads")                                            //
      ("kv-heads", count_value(shape.kv_heads, "N", "kv-heads"),
       "heads of keys and values (grouped-query attention)")                                                         //
      ("hidden-size", count_value(shape.hidden_size, "N", "hidden-size"), "width of the residual stream")            //
      ("intermediate-size", count_value(shape.intermediate_size, "N", "intermediate-size"), "width inside the MLP")  //
      ("vocab-size", count_value(shape.vocab_size, "N", "vocab-size"), "tokens that the model knows")                //
      ("max-positions", count_value(shape.max_positions, "N", "max-positions"), "the longest sequence it takes")     //
      ("dropout", value(shape.dropout, "P"), "of all its dropouts")                                                  //
      ("untied-head", po::bool_switch(&shape.untied_head), "an output matrix of its own, not the embedding's")       //
      ("rope-theta", value(shape.rope_theta, "X"), "base of the rotary position embedding")                          //
      ("rope-scaling", value(shape.rope_scaling, "X"), "factor of Llama 3.1's rule for longer contexts; 1: none")    //
      ("init-from", path_value(o.model.init_from),
       "initial weights: a checkpoint, an HDF5, safetensors or .pt file, or a Hugging Face folder")  //
      ("sync-module-states", po::bool_switch(&o.model.rank0_reads),
       "rank 0 alone reads --init-from, and sends the others their parts")  //
      ("no-deferred-init", po::bool_switch()->notifier([&o](bool given) { o.model.deferred_init = !given; }),
       "build the whole model on every rank before it is sharded");
  return d;
}

po::options_description data_options(TrainOptions& o) {
  po::options_description d("Data");
  d.add_options()                                                                                          //
      ("data", path_value(o.data.path), "the training data; what they are, the model says: docs/data.md")  //
      ("test-data", path_value(o.data.test_path),
       "what is validated on (what lies beside --data, if anything); none: nothing")  //
      ("sequence-length", count_value(o.data.sequence_length, "N", "sequence-length"),
       "tokens a sample (the longest that the model takes)")  //
      ("token-type", value(o.data.token_type, "T"),
       "of plain token files: uint16, uint32 (auto: uint16 up to 65536 tokens)")                                 //
      ("tokenizer", value(o.data.tokenizer, "T"), "for text: gpt2, bytes, or a folder with a vocab.bpe (gpt2)")  //
      ("mask-token", value(o.data.mask_token, "ID"),
       "masked LM: the token that hides others (the last of the vocabulary)")                                      //
      ("special-tokens", ids_value(o.data.special_tokens), "masked LM: tokens that are never predicted, ID,...")   //
      ("mask-probability", value(o.data.mask_probability, "P"), "masked LM: of a token to be predicted (0.15)")    //
      ("prefetch-batches", value(o.data.prefetch, "N"), "batches that a thread prepares ahead (2); 0: no thread")  //
      ("no-shuffle", po::bool_switch()->notifier([&o](bool given) { o.data.shuffle = !given; }),
       "take the samples in their order in the data")                                                       //
      ("epochs", value(o.run.epochs, "N"), "passes over the data")                                          //
      ("max-steps", value(o.run.max_steps, "N"), "end after N steps; without --epochs, that alone counts")  //
      ("test-batch-size", value(o.data.test_batch_size, "N"), "test samples of all ranks at a time");
  return d;
}

po::options_description batch_options(TrainOptions& o) {
  po::options_description d("Batches");
  d.add_options()                                                                                           //
      ("batch-size", count_value(o.batch.batch_size, "N", "batch-size"), "samples of a rank's micro-step")  //
      ("global-batch-size", count_value(o.batch.global_batch_size, "N", "global-batch-size"),
       "samples of a step over all ranks; with --batch-size, --accumulate follows")                 //
      ("accumulate", count_value(o.batch.accumulate, "K", "accumulate"), "micro-steps a step (1)")  //
      ("accumulate-mode", value(o.sharding.accumulate_mode, "M"),
       "defer: gradients are reduced every micro-step, replicas' sums at the step; reduce: both every micro-step; "
       "keep: "
       "whole gradients are kept, both at the last (defer)");
  return d;
}

po::options_description sharding_options(TrainOptions& o) {
  po::options_description d("Sharding");
  d.add_options()  //
      ("strategy", value(o.sharding.strategy, "NAME"),
       "full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2; or zero3, zero2, zero1")             //
      ("shard-size", value(o.sharding.shard_size, "N"), "ranks a shard group of the hybrid strategies (a node's)")  //
      ("reshard-after-forward", value(o.sharding.reshard_after_forward, "N"),
       "ranks among which units stay whole from forward to backward, say a node's; 0: only while in use (0)")  //
      ("wrap", value(o.sharding.wrap, "POLICY"),
       "units: none, size:MIN_PARAMS, class:NAME,..., name:PATTERN,...; +rest:MIN_PARAMS: large modules left over")  //
      ("forward-prefetch", value(o.sharding.forward_prefetch, "N"), "units gathered ahead in the forward pass (1)")  //
      ("backward-prefetch", prefetch_value(o.sharding),
       "the same in the backward pass; pre: 1, none: 0; post: 1, once the gradients of the unit before are sent (1)")  //
      ("limit-all-gathers", value(o.sharding.limit_all_gathers, "N"),
       "units that are whole at a time, at most; 0: as many as prefetching asks for (0)")  //
      ("param-dtype", value(o.sharding.param_dtype, "T"),
       "of parameters in forward and backward: fp32, bf16, fp16 (the model's)")                                 //
      ("reduce-dtype", value(o.sharding.reduce_dtype, "T"), "in which gradients are summed over ranks (fp32)")  //
      ("buffer-dtype", value(o.sharding.buffer_dtype, "T"), "of floating buffers (the model's)")                //
      ("offload", value(o.sharding.offload, "WHAT"), "to host memory: none, optimizer, params (none)")          //
      ("activation-checkpoint", value(o.sharding.activation_checkpoint, "WHAT"),
       "recompute in backward: none, every:K, full, selective (none)")  //
      ("activation-offload", po::bool_switch(&o.sharding.activation_offload),
       "keep what backward needs in host memory meanwhile")  //
      ("check-replicas", value(o.sharding.check_replicas, "WHEN"),
       "compare the replicas' parameters: start, never, or every N steps as well (start)")  //
      ("print-model", po::bool_switch(&o.run.print_model),
       "show the modules and their units; without --data, that is all");
  return d;
}

po::options_description checkpoint_options(TrainOptions& o) {
  po::options_description d("Checkpoints");
  d.add_options()                                                                                                 //
      ("checkpoint-dir", path_value(o.checkpoint.directory), "where they go (checkpoints/MODEL); none: nowhere")  //
      ("checkpoint-every", value(o.checkpoint.every, "N|Ne"),
       "steps, or epochs (1e); 0: only at the end of the job")                //
      ("keep", value(o.checkpoint.keep, "N"), "newest checkpoints kept (2)")  //
      ("files", value(o.checkpoint.files, "N"),
       "files of a checkpoint (one a rank on one host; on several one a host, or 512)")  //
      ("async-save", value(o.checkpoint.async_save, "WHAT"),
       "training goes on while a checkpoint is written: wait (the next one waits for it), skip (it is left out), or "
       "off (wait)")  //
      ("checkpoint-view", value(o.checkpoint.view, "on|off"),
       "model.h5 in each checkpoint of at most 512 files, which shows whole tensors to HDF5 tools (on)")  //
      ("stage-gib", value(o.checkpoint.stage_gib, "GIB"),
       "host memory of a rank for copies of what is being written (what they need, up to a quarter of the free memory "
       "by the ranks of the host)")  //
      ("keep-every", value(o.checkpoint.keep_every, "K"),
       "keeps those of steps K, 2K and so on too, for ever; 0: none (0)")  //
      ("save-at-start", po::bool_switch(&o.checkpoint.save_at_start),
       "a first checkpoint before the first step, which shows at once whether saving works")                         //
      ("resume", value(o.checkpoint.resume, "WHAT"), "auto (the newest, if there is one), never, or a path (auto)")  //
      ("allow-missing", po::value(&o.checkpoint.allow_missing)->value_name("GLOB")->composing(),
       "parameters that --resume's or --init-from's file may lack, which keep their initial values; several times")  //
      ("allow-extra", po::value(&o.checkpoint.allow_extra)->value_name("GLOB")->composing(),
       "parameters of that file that the model may lack; several times")  //
      ("rename", po::value(&o.checkpoint.rename)->value_name("OLD=NEW|FILE")->composing(),
       "parameters of that file have another name in the model: OLD=NEW, with '*' or '**' in both for all that fit, or "
       "a file of rules ('REGEX -> REPLACEMENT'); several times")  //
      ("output", path_value(o.checkpoint.output),
       "the weights in one file at the end, FILE.h5 or FILE.pt (CHECKPOINT_DIR/MODEL.h5); none: not written")  //
      ("output-driver", value(o.checkpoint.output_driver, "posix|mpio"),
       "who writes --output: posix, rank 0; mpio, all ranks at once by collective MPI-IO, which needs a build with a "
       "parallel HDF5 (posix)");
  return d;
}

po::options_description job_options(TrainOptions& o) {
  po::options_description d("The job: docs/running.md");
  d.add_options()  //
      ("run-dir", path_value(o.job.run_dir),
       "where logs, status and records of the attempts go (CHECKPOINT_DIR/run); none: nowhere")  //
      ("time-limit", value(o.job.time_limit, "TIME"),
       "save and stop in time before it, as sbatch --time takes it; 0: Slurm's limit alone (0)")               //
      ("time-margin", value(o.job.time_margin, "S"), "seconds to keep in reserve before the time limit (60)")  //
      ("requeue", value(o.job.requeue, "WHEN"),
       "once stopped and saved, requeue the Slurm job: never, on-signal, on-deadline, or both with a comma (never)")  //
      ("max-requeues", value(o.job.max_requeues, "N"), "of one job (20)")                                             //
      ("max-no-progress", value(o.job.max_no_progress, "N"),
       "attempts of a job in a row without a new step, after which it ends with exit code 21; 0: any number (3)")  //
      ("hang-timeout", value(o.job.hang_timeout, "S"),
       "seconds in which some rank does not get on, after which it is told where each rank is, and the job ends with "
       "exit code 20; 0: never (600)");
  return d;
}

po::options_description run_options(TrainOptions& o) {
  po::options_description d("Run");
  d.add_options()                                                                               //
      ("seed", value(o.run.seed, "N"), "of initial weights, order of samples and dropout (1)")  //
      ("deterministic", po::bool_switch(&o.run.deterministic),
       "bit-equal losses and weights on 1, 2, 4, ... ranks; one thread a rank unless --threads is given")  //
      ("device", value(o.run.device, "NAME"), "auto, cpu, cuda (auto)")                                    //
      ("threads", value(o.run.threads, "N"), "threads of a rank (its share of the node's cores)")          //
      ("collective-timeout", value(o.run.collective_timeout, "S"),
       "seconds to wait for another rank (60 more than --hang-timeout)")  //
      ("log-every", value(o.run.log_every, "N"),
       "steps between lines of progress, which metrics.jsonl in the run directory gets too (10)")            //
      ("tensorboard", po::bool_switch(&o.run.tensorboard), "the same as event files, in the run directory")  //
      ("peak-tflops", value(o.run.peak_tflops, "X"),
       "TFLOP/s that the MFU is a share of; 0: of the GPU by its name (0)")                         //
      ("trace", path_value(o.run.trace), "write what ran when, for chrome://tracing and Perfetto")  //
      ("quiet", po::bool_switch(&o.run.quiet), "results, warnings and errors alone")                //
      ("dry-run", po::bool_switch(&o.run.dry_run), "check everything, train and write nothing")     //
      ("help", "show this and stop");
  return d;
}

}  // namespace

OptionGroups option_groups(TrainOptions& o) {
  return {config_options(),     model_options(o),      data_options(o),       batch_options(o), sharding_options(o),
          optimizer_options(o), loss_scale_options(o), checkpoint_options(o), job_options(o),   run_options(o)};
}

}  // namespace shoal::apps
