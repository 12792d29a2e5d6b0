#include "launch/launch_check.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "launch/mpi_session.h"
#include "launch/slurm_samples.h"

namespace shoal::launch {
namespace {

using samples::with;
using samples::without;

// The third of four ranks on three nodes with two, one and one of them, as in samples::uneven_step().
const Placement kPlace{.rank = 2, .size = 4, .local_rank = 0, .local_size = 1, .node = 1, .nodes = 3, .host = "n2"};

Variables without_pmi(const Variables& variables) { return without(without(variables, "PMIX_RANK"), "PMIX_NAMESPACE"); }

std::string fault_before(const Variables& variables, MpiLibrary library) {
  try {
    check_before_mpi(read_slurm_environment(variables), library);
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "";
}

std::string fault_after(const Variables& variables, const Placement& placement) {
  try {
    check_world(read_slurm_environment(variables), placement);
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "'" << text << "' lacks " << word;
}

TEST(BeforeMpi, WhatIsInOrderPasses) {
  for (const MpiLibrary library : {MpiLibrary::open_mpi, MpiLibrary::other}) {
    EXPECT_EQ(fault_before({}, library), "");
    EXPECT_EQ(fault_before(samples::uneven_step(), library), "");
    EXPECT_EQ(fault_before(samples::batch_shell(), library), "");
    EXPECT_EQ(fault_before(samples::salloc_shell(), library), "");
    EXPECT_EQ(fault_before(samples::under_mpirun(without_pmi(samples::uneven_step())), library), "");
    EXPECT_EQ(fault_before(with(without_pmi(samples::uneven_step()), {{"PMI_FD", "7"}}), library), "");
  }
}

TEST(BeforeMpi, NoProcessManagerIsNamedWithTheFlag) {
  for (const MpiLibrary library : {MpiLibrary::open_mpi, MpiLibrary::other})
    expect_words(fault_before(without_pmi(samples::uneven_step()), library),
                 {"4 tasks without a process manager", "--mpi=none", "srun --mpi=pmix", "srun --mpi=list"});
}

TEST(BeforeMpi, OneTaskAloneIsInOrderUnlessOpenMpiWouldAbort) {
  const Variables one = with(without_pmi(samples::uneven_step()), {{"SLURM_STEP_NUM_TASKS", "1"},
                                                                   {"SLURM_STEP_NUM_NODES", "1"},
                                                                   {"SLURM_STEP_NODELIST", "n1"},
                                                                   {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                                                   {"SLURM_PROCID", "0"},
                                                                   {"SLURM_NODEID", "0"},
                                                                   {"SLURM_GTIDS", "0"}});
  EXPECT_EQ(fault_before(one, MpiLibrary::other), "");
  expect_words(fault_before(one, MpiLibrary::open_mpi), {"1 task without", "--mpi=pmix"});
}

TEST(BeforeMpi, TheInteractiveStepNeedsSrunForOpenMpi) {
  expect_words(fault_before(samples::interactive_step(), MpiLibrary::open_mpi),
               {"the interactive step of salloc of job 42", "srun -n RANKS --mpi=pmix", "mpirun -n RANKS"});
  EXPECT_EQ(fault_before(samples::interactive_step(), MpiLibrary::other), "");
}

TEST(BeforeMpi, AProcessManagerThatOpenMpiMayNotKnowIsToldByTheFirstTask) {
  const Variables pmi2 = with(without_pmi(samples::uneven_step()), {{"PMI_FD", "7"}, {"PMI_RANK", "2"}});
  const Variables first = with(pmi2, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_GTIDS", "0,1"}});
  expect_words(warning_before_mpi(read_slurm_environment(first), MpiLibrary::open_mpi), {"PMI-1 or 2", "--mpi=pmix"});
  EXPECT_EQ(warning_before_mpi(read_slurm_environment(pmi2), MpiLibrary::open_mpi), "");
  EXPECT_EQ(warning_before_mpi(read_slurm_environment(first), MpiLibrary::other), "");
  EXPECT_EQ(warning_before_mpi(read_slurm_environment(samples::uneven_step()), MpiLibrary::open_mpi), "");
}

TEST(BeforeMpi, ThatMpiInitDoesNotWaitIsToldByTheFirstTaskOfSeveralNodes) {
  const auto told = [](const Variables& variables, MpiLibrary library = MpiLibrary::open_mpi) {
    return warning_before_mpi(read_slurm_environment(variables), library);
  };
  const Variables first =
      with(samples::uneven_step(), {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_GTIDS", "0,1"}});
  expect_words(told(first), {"export SLURM_PMIX_FENCE=ring"});
  expect_words(told(with(first, {{"SLURM_PMIX_FENCE", "tree"}})), {"export SLURM_PMIX_FENCE=ring"});
  EXPECT_EQ(told(with(first, {{"SLURM_PMIX_FENCE", "ring"}})), "");
  EXPECT_EQ(told(first, MpiLibrary::other), "");
  EXPECT_EQ(told(samples::under_mpirun(first)), "");
  EXPECT_EQ(told(with(first, {{"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_STEP_NUM_NODES", "1"},
                              {"SLURM_STEP_NODELIST", "n1"},
                              {"SLURM_STEP_TASKS_PER_NODE", "2"}})),
            "");
}

TEST(BeforeMpi, ADamagedEnvironmentEndsTheProgram) {
  const auto slurm = read_slurm_environment(with(samples::uneven_step(), {{"SLURM_STEP_NODELIST", "n[1"}}));
  EXPECT_THROW(check_before_mpi(slurm, MpiLibrary::open_mpi), OptionError);
  const auto headless = read_slurm_environment(without(samples::uneven_step(), "SLURM_PROCID"));
  EXPECT_THROW(check_before_mpi(headless, MpiLibrary::open_mpi), OptionError);
}

TEST(World, TheStepsRanksPass) {
  EXPECT_EQ(fault_after(samples::uneven_step(), kPlace), "");
  EXPECT_EQ(fault_after({}, {}), "");
  EXPECT_EQ(fault_after(samples::batch_shell(), {}), "");
  Placement of_mpirun = kPlace;
  of_mpirun.size = 16;
  EXPECT_EQ(fault_after(samples::under_mpirun(samples::uneven_step()), of_mpirun), "");
}

TEST(World, SingletonsAreNamedWithTheFlag) {
  expect_words(fault_after(samples::uneven_step(), {.host = "n2"}),
               {"1 rank in each of the 4 tasks", "PMIx", "srun --mpi=list"});
}

TEST(World, AnotherSizeOrAnotherRankIsAnError) {
  Placement other = kPlace;
  other.size = 8;
  expect_words(fault_after(samples::uneven_step(), other), {"8 ranks", "4 tasks (SLURM_STEP_NUM_TASKS)", "--mpi="});
  other = kPlace;
  other.rank = 1;
  expect_words(fault_after(samples::uneven_step(), other), {"rank 1 of MPI, but task 2", "SLURM_PROCID"});
}

TEST(Warnings, NoneForARankInItsPlace) {
  EXPECT_TRUE(launch_warnings(read_slurm_environment(samples::uneven_step()), kPlace).empty());
  EXPECT_TRUE(launch_warnings(read_slurm_environment({}), {}).empty());
  // The binding of a task is srun's own.
  const auto bound = read_slurm_environment(with(samples::uneven_step(), {{"SLURM_CPU_BIND", "quiet,mask_cpu:0x1"}}));
  EXPECT_TRUE(launch_warnings(bound, kPlace).empty());
}

TEST(Warnings, OneRankInAShellWithRoomForMore) {
  const auto warnings = launch_warnings(read_slurm_environment(samples::batch_shell()), {});
  ASSERT_EQ(warnings.size(), 1u);
  expect_words(warnings[0], {"one rank in the batch shell", "8 tasks (SLURM_NTASKS)", "srun"});
}

TEST(Warnings, ALeftOverBinding) {
  const auto slurm = read_slurm_environment(
      with(samples::batch_shell(),
           {{"SLURM_CPU_BIND", "quiet,mask_cpu:0x1"}, {"SLURM_NTASKS", "1"}, {"SLURM_NPROCS", "1"}}));
  const auto warnings = launch_warnings(slurm, {});
  ASSERT_EQ(warnings.size(), 1u);
  expect_words(warnings[0], {"SLURM_CPU_BIND is quiet,mask_cpu:0x1", "unset"});
}

TEST(Warnings, ANodeThatContainersSplit) {
  const auto slurm = read_slurm_environment(
      with(samples::uneven_step(),
           {{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}, {"SLURM_GTIDS", "0,1"}}));
  Placement place = kPlace;
  place.rank = 1;
  const auto warnings = launch_warnings(slurm, place);
  ASSERT_EQ(warnings.size(), 1u);
  expect_words(warnings[0], {"shares memory with 1 ranks", "has 2 tasks", "container"});
}

}  // namespace
}  // namespace shoal::launch
