#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "client/cli/bench/results.h"

namespace batchplan::cli {
namespace {

constexpr double kPercents[] = {0, 1, 25, 50, 90, 99, 99.9, 100};

TEST(LatencyHistogram, PercentilesAreThoseOfTheSortedListAndAtMostA128thMore) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    LatencyHistogram histogram;
    std::vector<int64_t> all(1 + random() % 2000);
    // From nanoseconds to centuries.
    for (int64_t& nanoseconds : all) {
      nanoseconds = static_cast<int64_t>(random() >> (1 + random() % 63));
      histogram.Record(absl::Nanoseconds(nanoseconds));
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(histogram.count(), all.size());
    ASSERT_EQ(histogram.max(), absl::Nanoseconds(all.back()));
    for (const double percent : kPercents) {
      const auto rank = static_cast<size_t>(
          std::max(1.0, std::ceil(percent / 100 * static_cast<double>(all.size()) - 1e-9)));
      const int64_t exact = all[rank - 1];
      const int64_t shown = absl::ToInt64Nanoseconds(histogram.Percentile(percent));
      ASSERT_GE(shown, exact) << percent;
      ASSERT_LE(shown - exact, exact / 128) << percent;
    }
  }
}

TEST(LatencyHistogram, SmallValuesAreExact) {
  LatencyHistogram histogram;
  for (int i = 0; i < 128; ++i) histogram.Record(absl::Nanoseconds(i));
  EXPECT_EQ(histogram.Percentile(50), absl::Nanoseconds(63));
  EXPECT_EQ(histogram.Percentile(100), absl::Nanoseconds(127));
}

TEST(LatencyHistogram, ItTakesWhateverComes) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Percentile(99), absl::ZeroDuration());
  EXPECT_EQ(histogram.max(), absl::ZeroDuration());
  histogram.Record(-absl::Seconds(1));
  EXPECT_EQ(histogram.Percentile(99), absl::ZeroDuration());
  histogram.Record(absl::InfiniteDuration());
  EXPECT_EQ(histogram.max(), absl::Nanoseconds(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(histogram.Percentile(100), histogram.max());
}

TEST(LatencyHistogram, ManyThreadsMayRecord) {
  LatencyHistogram histogram;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&histogram, thread] {
        for (int i = 0; i < 10'000; ++i) histogram.Record(absl::Nanoseconds(4 * i + thread));
      });
    }
  }
  EXPECT_EQ(histogram.count(), 40'000U);
  EXPECT_EQ(histogram.max(), absl::Nanoseconds(39'999));
}

}  // namespace
}  // namespace batchplan::cli
