#include "server/telemetry/job_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

class JobLabelsTest : public testing::Test {
 protected:
  JobLabels Make(size_t max_labels, size_t max_watched = 1024) {
    return JobLabels({.max_labels = max_labels, .max_watched = max_watched},
                     [this](const std::string& label) { retired_.push_back(label); });
  }

  // The label of the last of so many calls at a time.
  static std::string Call(JobLabels& labels, const std::string& job, int calls,
                          absl::Time now = kStart) {
    std::string label;
    for (int call = 0; call < calls; ++call) label = labels.LabelOf(job, now);
    return label;
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

TEST_F(JobLabelsTest, AJobThatBecomesBusyTakesTheLabelOfTheLeastBusyOne) {
  JobLabels labels = Make(2);
  Call(labels, "a", 20);
  Call(labels, "b", 10);
  // Twice ten, and four besides.
  EXPECT_EQ(Call(labels, "c", 23), "other");
  EXPECT_EQ(Call(labels, "c", 1), "c");
  EXPECT_THAT(retired_, ElementsAre("b"));
  EXPECT_EQ(labels.LabelOf("b", kStart), "other");
  EXPECT_EQ(labels.LabelOf("a", kStart), "a");
}

TEST_F(JobLabelsTest, JobsThatAreAboutAsBusyLeaveEachOtherTheirLabels) {
  std::mt19937 random(7);
  for (const absl::Duration period : {absl::Seconds(1), absl::Minutes(1), absl::Minutes(25)}) {
    JobLabels labels = Make(3);
    std::vector<std::string> jobs;
    for (int job = 0; job < 12; ++job) jobs.push_back("job-" + std::to_string(job));
    absl::Time now = kStart;
    for (int round = 0; round < 1000; ++round) {
      std::ranges::shuffle(jobs, random);
      for (const std::string& job : jobs) labels.LabelOf(job, now += period / 12);
    }
    EXPECT_THAT(retired_, IsEmpty()) << period;
  }
}

TEST_F(JobLabelsTest, TheLabelOfAJobIdleForAnHourGoesToWhoeverCalls) {
  JobLabels labels = Make(2);
  Call(labels, "idle", 1000);
  Call(labels, "b", 1, kStart + absl::Minutes(1));
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(59)), "other");
  EXPECT_EQ(labels.LabelOf("c", kStart + absl::Minutes(60)), "c");
  EXPECT_THAT(retired_, ElementsAre("idle"));
}

TEST_F(JobLabelsTest, NamesThatComeOnceTakeNobodysLabelHoweverManyThereAre) {
  JobLabels labels = Make(2, /*max_watched=*/4);
  Call(labels, "a", 2);
  Call(labels, "b", 2);
  for (int name = 0; name < 10'000; ++name) {
    EXPECT_EQ(labels.LabelOf("made-up-" + std::to_string(name), kStart), "other");
  }
  EXPECT_THAT(retired_, IsEmpty());
}

TEST_F(JobLabelsTest, TheBusiestJobsAmongManyHaveLabelsInTheEnd) {
  // Job n calls as often as 1 / (n + 1), and the busiest ones come last.
  constexpr int kJobs = 2000;
  std::vector<double> shares;
  for (int job = 0; job < kJobs; ++job) shares.push_back(1.0 / (job + 1));
  std::mt19937 random(11);
  std::discrete_distribution<int> pick(shares.begin(), shares.end());
  JobLabels labels = Make(20, /*max_watched=*/200);
  for (int job = kJobs; job > 0; --job) labels.LabelOf("job-" + std::to_string(job - 1), kStart);
  std::vector<std::string> last(kJobs);
  for (int call = 0; call < 100'000; ++call) {
    const int job = pick(random);
    last[job] = labels.LabelOf("job-" + std::to_string(job), kStart);
  }
  for (int job = 0; job < 10; ++job) EXPECT_EQ(last[job], "job-" + std::to_string(job));
}

TEST_F(JobLabelsTest, CountsOutliveAnyTimeWithoutCalls) {
  JobLabels labels = Make(2);
  absl::Time now = kStart;
  for (int year = 0; year < 50; ++year) {
    now += absl::Hours(24 * 365);
    const std::string first = "first-" + std::to_string(year);
    const std::string second = "second-" + std::to_string(year);
    EXPECT_EQ(labels.LabelOf(first, now), first);
    EXPECT_EQ(labels.LabelOf(second, now), second);
    EXPECT_EQ(labels.LabelOf("third", now), "other");
  }
  EXPECT_EQ(retired_.size(), 98);
}

TEST_F(JobLabelsTest, SomeIdsNeverGetALabel) {
  JobLabels labels = Make(1);
  EXPECT_EQ(labels.LabelOf("", kStart), "unset");
  EXPECT_EQ(labels.LabelOf("unset", kStart), "unset");
  EXPECT_EQ(labels.LabelOf("other", kStart), "other");
  EXPECT_EQ(labels.LabelOf(std::string(kMaxJobLabelBytes + 1, 'a'), kStart), "other");
  EXPECT_EQ(labels.LabelOf(std::string(kMaxJobLabelBytes, 'a'), kStart),
            std::string(kMaxJobLabelBytes, 'a'));
  EXPECT_EQ(Make(0).LabelOf("a", kStart), "other");
}

TEST_F(JobLabelsTest, AClockThatGoesBackTakesNoLabels) {
  JobLabels labels = Make(1);
  labels.LabelOf("a", kStart);
  EXPECT_EQ(labels.LabelOf("b", kStart - absl::Hours(5)), "other");
  labels.LabelOf("a", kStart - absl::Hours(5));
  EXPECT_EQ(labels.LabelOf("b", kStart + absl::Minutes(59)), "other");
}

// The same, said as plainly as can be: counts at the time of the last call, searched from end to
// end. Exact where time goes by half-lives.
class Model {
 public:
  Model(size_t max_labels, size_t max_watched)
      : max_labels_(max_labels), max_watched_(max_watched) {}

  std::string LabelOf(const std::string& name, int half_lives) {
    now_ += half_lives;
    for (Job& job : jobs_) {
      job.calls = std::ldexp(job.calls, -half_lives);
      job.inherited = std::ldexp(job.inherited, -half_lives);
    }
    size_t at = 0;
    while (at < jobs_.size() && jobs_[at].name != name) ++at;
    if (at == jobs_.size()) {
      double inherited = 0;
      if (Number(false) == max_watched_) {
        const size_t least = Least(false);
        inherited = jobs_[least].calls;
        jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(least));
      }
      jobs_.push_back({.name = name, .calls = inherited, .inherited = inherited});
      at = jobs_.size() - 1;
    }
    // The last to call comes last.
    std::rotate(jobs_.begin() + static_cast<std::ptrdiff_t>(at),
                jobs_.begin() + static_cast<std::ptrdiff_t>(at) + 1, jobs_.end());
    Job& job = jobs_.back();
    job.calls += 1;
    job.last = now_;
    if (job.labelled) return name;
    if (Number(true) == max_labels_) {
      const auto longest_idle = std::ranges::find(jobs_, true, &Job::labelled);
      Job& least = jobs_[Least(true)];
      const bool is_idle = now_ - longest_idle->last >= 6;
      if (!is_idle && job.calls - job.inherited < 2 * least.calls + 4) return "other";
      Job& other = is_idle ? *longest_idle : least;
      retired.push_back(other.name);
      other.labelled = false;
    }
    job.labelled = true;
    return name;
  }

  std::vector<std::string> retired;

 private:
  struct Job {
    std::string name;
    double calls = 0;
    double inherited = 0;
    int last = 0;
    bool labelled = false;
  };
  size_t Number(bool labelled) const {
    return static_cast<size_t>(std::count_if(
        jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.labelled == labelled; }));
  }
  size_t Least(bool labelled) const {
    size_t least = jobs_.size();
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].labelled != labelled) continue;
      if (least == jobs_.size() || jobs_[i].calls < jobs_[least].calls) least = i;
    }
    return least;
  }

  const size_t max_labels_;
  const size_t max_watched_;
  // Of those that are as busy, the longest idle first.
  std::vector<Job> jobs_;
  int now_ = 0;
};

TEST_F(JobLabelsTest, AnySequenceOfCallsGivesTheModelsLabels) {
  std::mt19937 random(5);
  size_t retired = 0;
  for (int round = 0; round < 2000; ++round) {
    const size_t max_labels = 1 + random() % 4;
    const size_t max_watched = 1 + random() % 6;
    const unsigned names = 2 + random() % 12;
    retired_.clear();
    JobLabels labels = Make(max_labels, max_watched);
    Model model(max_labels, max_watched);
    absl::Time now = kStart;
    unsigned favourite = 0;
    for (int call = 0; call < 60; ++call) {
      const int half_lives = random() % 8 == 0 ? static_cast<int>(random() % 6) : 0;
      now += half_lives * JobLabelOptions().half_life;
      if (random() % 16 == 0) favourite = random() % names;
      const unsigned number = random() % 2 == 0 ? favourite : random() % names;
      const std::string job = "job-" + std::to_string(number);
      ASSERT_EQ(labels.LabelOf(job, now), model.LabelOf(job, half_lives));
    }
    EXPECT_EQ(retired_, model.retired);
    retired += retired_.size();
  }
  EXPECT_GE(retired, 1000);
}

}  // namespace
}  // namespace batchplan
