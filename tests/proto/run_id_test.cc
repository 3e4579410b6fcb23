#include "proto/batchplan/v1/run_id.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace batchplan {
namespace {

using Environment = std::map<std::string, std::string>;

std::string RunId(const Environment& environment, uint32_t world_size = 8) {
  return DefaultRunId(world_size, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

const Environment kStep = {
    {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}};

Environment With(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

TEST(RunId, IsJobStepAndRestartsOfSlurm) {
  EXPECT_EQ(RunId(kStep), "slurm-4711.0.r0");
  EXPECT_EQ(RunId(With(kStep, "SLURM_RESTART_COUNT", "2")), "slurm-4711.0.r2");
  EXPECT_EQ(RunId(With(kStep, "SLURM_STEP_ID", "3")), "slurm-4711.3.r0");
}

TEST(RunId, IsOneForTheComponentsOfAHeterogeneousJob) {
  EXPECT_EQ(RunId(With(kStep, "SLURM_HET_JOB_ID", "4710")), "slurm-4710.0.r0");
}

TEST(RunId, IsEmptyOutsideAStep) {
  EXPECT_EQ(RunId({}), "");
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}) {
    EXPECT_EQ(RunId(With(kStep, name, "")), "") << name;
    EXPECT_EQ(RunId(With(kStep, name, "x")), "") << name;
  }
}

TEST(RunId, IsEmptyWhereWorkersAreNotAllTasksOfTheStep) {
  EXPECT_EQ(RunId(kStep, 9), "");
  EXPECT_EQ(RunId(kStep, 4), "slurm-4711.0.r0");
  EXPECT_EQ(RunId(With(kStep, "TORCHELASTIC_RUN_ID", "none")), "");
}

}  // namespace
}  // namespace batchplan
