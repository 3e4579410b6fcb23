#include "server/telemetry/job_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/base/ids.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

class JobLabelsTest : public testing::Test {
 protected:
  JobLabels Make(size_t max_labels) {
    return JobLabels({.max_labels = max_labels},
                     [this](const std::string& label) { retired_.push_back(label); });
  }

  std::vector<std::string> retired_;
};

TEST_F(JobLabelsTest, JobsHaveTheirOwnLabelsUntilAllAreTaken) {
  JobLabels labels = Make(2);
  EXPECT_EQ(labels.LabelOf("a", kStart), "a");
  EXPECT_EQ(labels.LabelOf("b", kStart), "b");
  EXPECT_EQ(labels.LabelOf("c", kStart), "other");
  EXPECT_EQ(labels.LabelOf("a", kStart), "a");
  EXPECT_THAT(retired_, IsEmpty());
}

TEST_F(JobLabelsTest, TheLabelOfTheJobIdleForLongestGoesToAnotherAfterAnHour) {
  JobLabels labels = Make(2);
  labels.LabelOf("a", kStart);
  labels.LabelOf("b", kStart);
  labels.LabelOf("a", kStart + absl::Minutes(1));
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(59)), "other");
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(60)), "c");
  EXPECT_THAT(retired_, ElementsAre("b"));
  EXPECT_EQ(labels.LabelOf("b", kStart + absl::Minutes(60)), "other");
  EXPECT_EQ(labels.LabelOf("b", kStart + absl::Minutes(61)), "b");
  EXPECT_THAT(retired_, ElementsAre("b", "a"));
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(61)), "c");
}

TEST_F(JobLabelsTest, NamesThatAreMadeUpTakeNobodysLabelHoweverManyThereAre) {
  JobLabels labels = Make(2);
  absl::Time now = kStart;
  for (int name = 0; name < 10'000; ++name) {
    EXPECT_EQ(labels.LabelOf("a", now += absl::Minutes(1)), "a");
    EXPECT_EQ(labels.LabelOf("b", now), "b");
    EXPECT_EQ(labels.LabelOf("made-up-" + std::to_string(name), now), "other");
  }
  EXPECT_THAT(retired_, IsEmpty());
}

TEST_F(JobLabelsTest, SomeIdsNeverGetALabel) {
  JobLabels labels = Make(1);
  EXPECT_EQ(labels.LabelOf("", kStart), "unset");
  EXPECT_EQ(labels.LabelOf("unset", kStart), "unset");
  EXPECT_EQ(labels.LabelOf("other", kStart), "other");
  EXPECT_EQ(labels.LabelOf("no\ntext", kStart), "other");
  EXPECT_EQ(labels.LabelOf("no UTF-8: \xff", kStart), "other");
  EXPECT_EQ(labels.LabelOf(std::string(kMaxIdBytes + 1, 'a'), kStart), "other");
  EXPECT_EQ(labels.LabelOf(std::string(kMaxIdBytes, 'a'), kStart), std::string(kMaxIdBytes, 'a'));
  EXPECT_EQ(Make(0).LabelOf("a", kStart), "other");
}

TEST_F(JobLabelsTest, AClockThatGoesBackTakesNoLabels) {
  JobLabels labels = Make(1);
  labels.LabelOf("a", kStart);
  EXPECT_EQ(labels.LabelOf("b", kStart - absl::Hours(5)), "other");
  labels.LabelOf("a", kStart - absl::Hours(5));
  EXPECT_EQ(labels.LabelOf("b", kStart + absl::Minutes(59)), "other");
}

}  // namespace
}  // namespace batchplan
