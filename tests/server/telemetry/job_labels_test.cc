#include "server/telemetry/job_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

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

TEST_F(JobLabelsTest, JobsHaveTheirOwnLabelsUntilThePlacesAreTaken) {
  JobLabels labels = Make(2);
  EXPECT_EQ(labels.LabelOf("a", kStart), "a");
  EXPECT_EQ(labels.LabelOf("b", kStart), "b");
  EXPECT_EQ(labels.LabelOf("c", kStart), "other");
  EXPECT_EQ(labels.LabelOf("a", kStart), "a");
  EXPECT_THAT(retired_, IsEmpty());
}

TEST_F(JobLabelsTest, ThePlaceOfAJobIdleForAnHourIsGivenAway) {
  JobLabels labels = Make(2);
  labels.LabelOf("a", kStart);
  labels.LabelOf("b", kStart + absl::Minutes(1));
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(59)), "other");
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(60)), "c");
  EXPECT_THAT(retired_, ElementsAre("a"));
  EXPECT_EQ(labels.LabelOf("a", kStart + absl::Minutes(60)), "other");
  EXPECT_EQ(labels.LabelOf("a", kStart + absl::Minutes(61)), "a");
  EXPECT_THAT(retired_, ElementsAre("a", "b"));
}

TEST_F(JobLabelsTest, SomeIdsNeverGetAPlace) {
  JobLabels labels = Make(1);
  EXPECT_EQ(labels.LabelOf("", kStart), "unset");
  EXPECT_EQ(labels.LabelOf("unset", kStart), "unset");
  EXPECT_EQ(labels.LabelOf("other", kStart), "other");
  EXPECT_EQ(labels.LabelOf(std::string(kMaxJobLabelBytes + 1, 'a'), kStart), "other");
  EXPECT_EQ(labels.LabelOf(std::string(kMaxJobLabelBytes, 'a'), kStart),
            std::string(kMaxJobLabelBytes, 'a'));
  EXPECT_EQ(Make(0).LabelOf("a", kStart), "other");
}

TEST_F(JobLabelsTest, AClockThatGoesBackTakesNoPlaces) {
  JobLabels labels = Make(1);
  labels.LabelOf("a", kStart);
  EXPECT_EQ(labels.LabelOf("b", kStart - absl::Hours(5)), "other");
  labels.LabelOf("a", kStart - absl::Hours(5));
  EXPECT_EQ(labels.LabelOf("b", kStart + absl::Minutes(59)), "other");
}

// The same, said as plainly as can be: a list of jobs with their times, searched from end to end.
class Model {
 public:
  explicit Model(size_t max_labels) : max_labels_(max_labels) {}

  std::string LabelOf(const std::string& job, absl::Time now) {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].first != job) continue;
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
      jobs_.emplace_back(job, now);
      return job;
    }
    if (jobs_.size() == max_labels_) {
      if (now - jobs_.front().second < absl::Hours(1)) return "other";
      retired.push_back(jobs_.front().first);
      jobs_.erase(jobs_.begin());
    }
    jobs_.emplace_back(job, now);
    return job;
  }

  std::vector<std::string> retired;

 private:
  const size_t max_labels_;
  // The longest idle first.
  std::vector<std::pair<std::string, absl::Time>> jobs_;
};

TEST_F(JobLabelsTest, AnySequenceOfCallsGivesTheModelsLabels) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const size_t max_labels = 1 + random() % 6;
    retired_.clear();
    JobLabels labels = Make(max_labels);
    Model model(max_labels);
    absl::Time now = kStart;
    for (int call = 0; call < 300; ++call) {
      now += absl::Minutes(random() % 4 == 0 ? random() % 50 : 0);
      const std::string job = "job-" + std::to_string(random() % (2 * max_labels + 1));
      ASSERT_EQ(labels.LabelOf(job, now), model.LabelOf(job, now));
    }
    EXPECT_EQ(retired_, model.retired);
  }
}

}  // namespace
}  // namespace batchplan
