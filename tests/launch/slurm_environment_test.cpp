#include "launch/slurm_environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string_view>

#include "core/error.h"
#include "launch/slurm_samples.h"

namespace shoal::launch {
namespace {

using samples::with;
using samples::without;

template <typename T>
void expect_found(const Maybe<T>& found, const T& value, const std::string& variable) {
  ASSERT_TRUE(found.has_value()) << variable;
  EXPECT_EQ(found->value, value);
  EXPECT_EQ(found->variable, variable);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

void expect_sound(const SlurmEnvironment& slurm) {
  EXPECT_EQ(joined(slurm.faults), "");
  EXPECT_EQ(joined(slurm.notes), "");
  EXPECT_NO_THROW(require_sound(slurm));
}

TEST(SlurmEnvironment, NoneWithoutAJob) {
  const auto slurm = read_slurm_environment({{"HOME", "/root"}, {"SLURM_CONF", "/etc/slurm.conf"}});
  EXPECT_EQ(slurm.context, SlurmContext::none);
  EXPECT_EQ(slurm.launcher, Launcher::none);
  EXPECT_FALSE(slurm.in_job());
  EXPECT_EQ(slurm.job_name_for_slurm(), "");
  EXPECT_EQ(describe(slurm), "no job of Slurm");
  expect_sound(slurm);
}

TEST(SlurmEnvironment, TheStepCountsBeforeTheJob) {
  const auto slurm = read_slurm_environment(samples::uneven_step());
  expect_sound(slurm);
  EXPECT_EQ(slurm.context, SlurmContext::step);
  EXPECT_EQ(slurm.launcher, Launcher::srun);
  EXPECT_EQ(slurm.pmi, Pmi::pmix);
  expect_found<std::int64_t>(slurm.job_id, 41, "SLURM_JOB_ID");
  expect_found<std::int64_t>(slurm.tasks, 4, "SLURM_STEP_NUM_TASKS");
  expect_found<std::int64_t>(slurm.nodes, 3, "SLURM_STEP_NUM_NODES");
  expect_found<std::vector<std::string>>(slurm.hosts, {"n1", "n2", "n3"}, "SLURM_STEP_NODELIST");
  expect_found<std::vector<int>>(slurm.tasks_per_node, {2, 1, 1}, "SLURM_STEP_TASKS_PER_NODE");
  expect_found<std::int64_t>(slurm.procid, 2, "SLURM_PROCID");
  expect_found<std::vector<int>>(slurm.tasks_here, {2}, "SLURM_GTIDS");
  EXPECT_FALSE(slurm.restart_count.has_value());
  EXPECT_EQ(describe(slurm), "step 0 of job 41, started by srun: task 2 of 4 on n2");
}

TEST(SlurmEnvironment, WithoutTheStepsValuesThoseOfTheJobInAFixedOrder) {
  auto variables = samples::batch_shell();
  auto slurm = read_slurm_environment(variables);
  expect_found<std::int64_t>(slurm.tasks, 8, "SLURM_NTASKS");
  expect_found<std::int64_t>(slurm.nodes, 4, "SLURM_NNODES");
  slurm = read_slurm_environment(without(without(variables, "SLURM_NTASKS"), "SLURM_NNODES"));
  expect_found<std::int64_t>(slurm.tasks, 8, "SLURM_NPROCS");
  expect_found<std::int64_t>(slurm.nodes, 4, "SLURM_JOB_NUM_NODES");
  expect_found<std::vector<int>>(slurm.tasks_per_node, {2, 2, 2, 2}, "SLURM_TASKS_PER_NODE");
}

TEST(SlurmEnvironment, BatchShellIsNoTask) {
  const auto slurm = read_slurm_environment(samples::batch_shell());
  expect_sound(slurm);
  EXPECT_EQ(slurm.context, SlurmContext::batch_shell);
  EXPECT_EQ(slurm.launcher, Launcher::none);
  EXPECT_EQ(slurm.restart_count->value, 1);
  const auto newer = read_slurm_environment(with(samples::batch_shell(), {{"SLURM_STEP_ID", "4294967291"}}));
  EXPECT_EQ(newer.context, SlurmContext::batch_shell);
}

TEST(SlurmEnvironment, ShellsOfSalloc) {
  const auto shell = read_slurm_environment(samples::salloc_shell());
  expect_sound(shell);
  EXPECT_EQ(shell.context, SlurmContext::interactive_shell);
  const auto step = read_slurm_environment(samples::interactive_step());
  expect_sound(step);
  EXPECT_EQ(step.context, SlurmContext::interactive_step);
  EXPECT_EQ(step.launcher, Launcher::none);
  expect_found<std::int64_t>(step.tasks, 1, "SLURM_STEP_NUM_TASKS");  // and not the 8 of SLURM_NTASKS
  EXPECT_EQ(describe(step), "the interactive step of salloc of job 42");
  const auto login = read_slurm_environment({{"SLURM_JOB_ID", "42"}, {"SLURM_STEP_ID", "4294967292"}});
  EXPECT_EQ(login.context, SlurmContext::extern_step);
}

TEST(SlurmEnvironment, ArbitraryOrderOfRanks) {
  // SLURM_HOSTFILE with n2, n1, n3, n1: the list stays sorted, ranks 1 and 3 are on its first node.
  const auto slurm = read_slurm_environment(
      with(samples::uneven_step(),
           {{"SLURM_PROCID", "3"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}, {"SLURM_GTIDS", "1,3"}}));
  expect_sound(slurm);
}

TEST(SlurmEnvironment, HeterogeneousStepsAreOneWorld) {
  const auto slurm = read_slurm_environment(samples::heterogeneous_step());
  expect_sound(slurm);
  EXPECT_EQ(slurm.het_size->value, 2);
  EXPECT_EQ(slurm.tasks->value, 3);
  EXPECT_EQ(describe(slurm), "step 0 of job 50 (heterogeneous, 2 components), started by srun: task 2 of 3");
}

TEST(SlurmEnvironment, ArrayTasksAreAddressedByBothNumbers) {
  const Variables array{{"SLURM_ARRAY_JOB_ID", "36"}, {"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_JOB_ID", "36"}};
  const auto slurm = read_slurm_environment(with(samples::uneven_step(), array));
  expect_sound(slurm);
  EXPECT_EQ(slurm.job_name_for_slurm(), "36_3");
  EXPECT_EQ(read_slurm_environment(samples::uneven_step()).job_name_for_slurm(), "41");
}

TEST(SlurmEnvironment, RanksOfMpirunAreNoTasks) {
  const auto plain = read_slurm_environment(samples::under_mpirun({}));
  EXPECT_EQ(plain.launcher, Launcher::mpirun);
  EXPECT_EQ(plain.context, SlurmContext::none);
  const auto in_step = read_slurm_environment(samples::under_mpirun(samples::uneven_step()));
  EXPECT_EQ(in_step.launcher, Launcher::mpirun);
  EXPECT_EQ(in_step.context, SlurmContext::step);
  const auto mpich =
      read_slurm_environment(with(samples::batch_shell(), {{"HYDI_CONTROL_FD", "7"}, {"PMI_RANK", "1"}}));
  EXPECT_EQ(mpich.launcher, Launcher::mpirun);
  EXPECT_EQ(mpich.pmi, Pmi::pmi);
  // MPI_Init of Open MPI sets these under srun as well.
  const auto direct = read_slurm_environment(with(samples::uneven_step(), {{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_EQ(direct.launcher, Launcher::srun);
}

// MPI_Init of Open MPI adds these to the environment of a program that was started without a launcher.
TEST(SlurmEnvironment, ASingletonIsNoRankOfMpirun) {
  const auto slurm = read_slurm_environment(
      with(samples::batch_shell(), {{"OMPI_MCA_orte_launch", "1"}, {"OMPI_MCA_ess", "singleton"}, {"PMIX_RANK", "0"}}));
  EXPECT_EQ(slurm.launcher, Launcher::none);
  EXPECT_EQ(slurm.context, SlurmContext::batch_shell);
  auto ranks = samples::under_mpirun(samples::batch_shell());
  ranks["OMPI_MCA_ess"] = "^singleton";
  EXPECT_EQ(read_slurm_environment(ranks).launcher, Launcher::mpirun);
}

TEST(SlurmEnvironment, AStepThatLostItsNumberIsAFault) {
  const auto variables = without(without(samples::uneven_step(), "SLURM_STEP_ID"), "SLURM_STEPID");
  const auto slurm = read_slurm_environment(variables);
  EXPECT_EQ(slurm.context, SlurmContext::step);
  EXPECT_NE(joined(slurm.faults).find("SLURM_STEP_ID is not set"), std::string::npos);
}

// The one fault of uneven_step() with `value` in `variable` has the variable's name and `words`.
void expect_fault(const std::string& variable, const std::string& value, const std::string& words) {
  const auto slurm = read_slurm_environment(with(samples::uneven_step(), {{variable, value}}));
  EXPECT_EQ(slurm.faults.size(), 1u) << joined(slurm.faults);
  const std::string text = joined(slurm.faults);
  EXPECT_NE(text.find(variable), std::string::npos) << text;
  EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_THROW(require_sound(slurm), OptionError);
}

TEST(SlurmEnvironment, MalformedValuesAreNamedWithValueAndPlace) {
  expect_fault("SLURM_STEP_NUM_TASKS", "four", "character 1 of 'four': a number is expected");
  expect_fault("SLURM_STEP_NUM_TASKS", "4x", "character 2 of '4x': a number is expected");
  expect_fault("SLURM_STEP_NUM_TASKS", "", "character 1 of ''");
  expect_fault("SLURM_STEP_NUM_TASKS", "0", "less than 1");
  expect_fault("SLURM_STEP_NUM_TASKS", "99999999999999999999", "too large");
  expect_fault("SLURM_STEP_NUM_TASKS", "2147483648", "more than 2147483647");
  expect_fault("SLURM_STEP_NODELIST", "n[3-1]", "character 3 of 'n[3-1]': the range 3-1 runs backwards");
  expect_fault("SLURM_STEP_NODELIST", "", "names no host");
  expect_fault("SLURM_STEP_TASKS_PER_NODE", "2,1(x)", "character 6 of '2,1(x)'");
  expect_fault("SLURM_PROCID", "-1", "less than 0");
  expect_fault("SLURM_STEP_ID", "4294967296", "more than 4294967295");
  expect_fault("SLURM_JOB_ID", "0", "less than 1");
  expect_fault("SLURM_GTIDS", "2,", "character 3 of '2,'");
  expect_fault("SLURM_CPUS_PER_TASK", "1.5", "character 2 of '1.5'");
  expect_fault("SLURM_RESTART_COUNT", "one", "character 1");
  expect_fault("SLURM_JOB_END_TIME", "tomorrow", "character 1");
  expect_fault("SLURM_GPUS_ON_NODE", "a100:4", "character 1");
  expect_fault("SLURM_HET_SIZE", "x", "character 1");
}

TEST(SlurmEnvironment, NoFaultHidesBehindAVariableThatComesFirst) {
  expect_fault("SLURM_NTASKS", "4(x2)", "character 2 of '4(x2)'");
  expect_fault("SLURM_JOB_NODELIST", "(null)", "character 1 of '(null)'");
  expect_fault("SLURM_JOB_CPUS_PER_NODE", "2x4", "character 2 of '2x4'");
}

// Whatever is read as a number, a list or counts, in whatever place of the order.
TEST(SlurmEnvironment, EachVariableThatIsReadIsChecked) {
  const std::set<std::string> texts{"SLURM_JOB_NAME", "SLURM_CLUSTER_NAME", "SLURMD_NODENAME",
                                    "SLURM_CPU_BIND", "SLURM_JOB_GPUS",     "CUDA_VISIBLE_DEVICES",
                                    "SLURM_MPI_TYPE", "SLURM_STEP_GPUS",    "SLURM_PMIX_FENCE"};
  std::size_t checked = 0;
  for (const EnvironmentRow& row : read_slurm_environment({}).rows)
    for (const std::string& variable : row.looked_at) {
      const auto slurm = read_slurm_environment(with(samples::uneven_step(), {{variable, "[@"}}));
      const bool is_named = std::ranges::any_of(slurm.faults, [&](const std::string& fault) {
        return fault.starts_with(variable + ": ") && fault.find("'[@'") != fault.npos;
      });
      EXPECT_NE(is_named, texts.contains(variable)) << variable << "\n" << joined(slurm.faults);
      ++checked;
    }
  EXPECT_GT(checked, 30u);
}

TEST(SlurmEnvironment, AnyValuesAreRead) {
  std::mt19937 random(3);
  constexpr std::string_view kLetters = "0123456789n[],-()x @\xff\x01";
  std::size_t faults = 0;
  for (int i = 0; i < 2000; ++i) {
    Variables variables = samples::uneven_step();
    for (auto& [name, value] : variables) {
      if (random() % 6 != 0) continue;
      value.insert(random() % (value.size() + 1), 1, kLetters[random() % kLetters.size()]);
    }
    const auto slurm = read_slurm_environment(variables);
    EXPECT_FALSE(describe(slurm).empty());
    faults += slurm.faults.size();
  }
  EXPECT_GT(faults, 1000u);
}

TEST(SlurmEnvironment, AMalformedValueHasNoSubstitute) {
  const auto slurm = read_slurm_environment(with(samples::uneven_step(), {{"SLURM_STEP_NUM_TASKS", "four"}}));
  EXPECT_FALSE(slurm.tasks.has_value());
}

TEST(SlurmEnvironment, EveryFaultIsInTheMessage) {
  const auto slurm = read_slurm_environment(
      with(samples::uneven_step(), {{"SLURM_PROCID", "x"}, {"SLURM_STEP_NODELIST", "n["}, {"SLURM_JOB_ID", "?"}}));
  EXPECT_EQ(slurm.faults.size(), 3u) << joined(slurm.faults);
  try {
    require_sound(slurm);
    FAIL() << "no error";
  } catch (const OptionError& error) {
    const std::string what = error.what();
    for (const char* name : {"SLURM_PROCID: ", "SLURM_STEP_NODELIST: ", "SLURM_JOB_ID: ", "shoal env"})
      EXPECT_NE(what.find(name), std::string::npos) << what;
  }
}

TEST(SlurmEnvironment, ContradictionsWithinTheStepAreFaults) {
  expect_fault("SLURM_STEP_TASKS_PER_NODE", "2,1,2",
               "SLURM_STEP_NUM_TASKS is 4, but the numbers in "
               "SLURM_STEP_TASKS_PER_NODE add up to 5");
  expect_fault("SLURM_STEP_NODELIST", "n[1-4]", "SLURM_STEP_NUM_NODES is 3, but SLURM_STEP_NODELIST is for 4 nodes");
  expect_fault("SLURM_PROCID", "4", "SLURM_PROCID is 4, but SLURM_STEP_NUM_TASKS gives only 4");
  expect_fault("SLURM_LOCALID", "1", "SLURM_LOCALID is 1, but SLURM_STEP_TASKS_PER_NODE of node 1 gives only 1");
  expect_fault("SLURM_NODEID", "3", "SLURM_NODEID is 3, but SLURM_STEP_NUM_NODES gives only 3");
  expect_fault("SLURM_GTIDS", "2,3", "SLURM_GTIDS names 2 tasks");
  expect_fault("SLURM_ARRAY_JOB_ID", "36", "SLURM_ARRAY_TASK_ID only one is set");
}

TEST(SlurmEnvironment, ContradictionsOfTheJobsValuesAreNotes) {
  const auto slurm = read_slurm_environment(with(samples::batch_shell(), {{"SLURM_NTASKS", "1"}}));
  EXPECT_TRUE(slurm.faults.empty()) << joined(slurm.faults);
  ASSERT_EQ(slurm.notes.size(), 1u);
  EXPECT_NE(slurm.notes[0].find("SLURM_NTASKS is 1, but the numbers in SLURM_TASKS_PER_NODE add up to 8"),
            std::string::npos);
}

TEST(SlurmEnvironment, RowsHaveAFixedOrderAndTellWhereTheyLooked) {
  const auto here = read_slurm_environment(samples::uneven_step()).rows;
  const auto nowhere = read_slurm_environment({}).rows;
  ASSERT_EQ(here.size(), nowhere.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(here[i].name, nowhere[i].name);
    EXPECT_EQ(here[i].looked_at, nowhere[i].looked_at);
    EXPECT_FALSE(here[i].looked_at.empty());
    EXPECT_EQ(nowhere[i].variable, "");
  }
  const auto tasks = std::ranges::find(here, "tasks", &EnvironmentRow::name);
  ASSERT_NE(tasks, here.end());
  EXPECT_EQ(tasks->looked_at, (std::vector<std::string>{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}));
  EXPECT_EQ(tasks->variable, "SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(tasks->value, "4");
}

}  // namespace
}  // namespace shoal::launch
