#include "server/fitting/memory_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/server/fitting/timings.h"

namespace batchplan {
namespace {

using testing::LogUniform;
using testing::RandomStream;

constexpr double kGigabyte = 1e9;

// A peak in bytes: a constant, a share for each token, and rounding by the allocator.
struct Memory {
  double constant = 0;
  double per_token = 0;
  double rounding = 0;

  uint64_t Of(uint64_t tokens, RandomStream& random) const {
    return static_cast<uint64_t>((constant + per_token * static_cast<double>(tokens)) *
                                 (1 + rounding * random.Uniform()));
  }
  // The most tokens within the limit with the worst rounding.
  double Budget(double limit) const { return (limit / (1 + rounding) - constant) / per_token; }
};

Memory RandomMemory(RandomStream& random) {
  return {.constant = 60 * kGigabyte * random.Uniform(),
          .per_token = LogUniform(random, 17, 22),
          .rounding = 0.02 * random.Uniform()};
}

TEST(MemoryFitTest, NothingIsKnownWithoutAPeak) { EXPECT_EQ(SuggestTokens({}, 80'000'000'000), 0); }

TEST(MemoryFitTest, TheSuggestionIsSafeAndNearlyAllThatFits) {
  for (const uint64_t seed : testing::Seeds(150)) {
    RandomStream random(seed);
    const Memory memory = RandomMemory(random);
    MemoryFit fit;
    uint64_t most = 0;
    for (int i = 0; i < 400; ++i) {
      const auto tokens = static_cast<uint64_t>(LogUniform(random, 10, 15));
      most = std::max(most, tokens);
      AddPeak(tokens, memory.Of(tokens, random), fit);
    }
    for (const double share : {0.2, 0.5, 0.9, 1.0, 1.1, 2.0}) {
      const double limit = memory.constant + memory.per_token * share * static_cast<double>(most);
      const uint32_t suggested = SuggestTokens(fit, static_cast<uint64_t>(limit));
      const double budget = (limit - memory.constant) / memory.per_token;
      EXPECT_LE(suggested, budget * 1.001) << seed << " " << share;
      EXPECT_LE(suggested, 1.25 * static_cast<double>(most)) << seed;
      const double reachable = std::min(memory.Budget(limit), 1.25 * static_cast<double>(most));
      // The suggestion may be lower by the width of a class, a sixteenth of an octave, and because
      // the envelope assumes the worst rounding everywhere.
      const double slack = reachable / 10 + memory.rounding * limit / memory.per_token;
      EXPECT_GE(suggested, reachable - slack) << seed << " " << share;
    }
  }
}

// Whatever the peaks, the suggestion allows no micro-batch that exceeded the limit.
TEST(MemoryFitTest, NoSampleWithinTheSuggestionTookMoreThanTheLimit) {
  uint64_t suggested_any = 0;
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    MemoryFit fit;
    std::vector<std::pair<uint64_t, uint64_t>> peaks;
    const double low = 20 * random.Uniform();
    const uint64_t count = random.Between(1, 60);
    for (uint64_t i = 0; i < count; ++i) {
      const auto tokens = static_cast<uint64_t>(LogUniform(random, low, low + 4));
      const auto bytes = static_cast<uint64_t>(LogUniform(random, 30, 36));
      peaks.emplace_back(tokens, bytes);
      AddPeak(tokens, bytes, fit);
    }
    const auto limit = static_cast<uint64_t>(LogUniform(random, 29, 37));
    const uint32_t suggested = SuggestTokens(fit, limit);
    for (const auto& [tokens, bytes] : peaks) {
      if (bytes > limit) {
        ASSERT_LT(suggested, tokens) << seed;
      }
    }
    suggested_any += suggested > 0;
  }
  EXPECT_GT(suggested_any, testing::Cases(1000) / 4);
}

TEST(MemoryFitTest, OneKindOfMicrobatchIsExtrapolatedInProportion) {
  MemoryFit fit;
  for (int i = 0; i < 10; ++i) AddPeak(16384, 40'000'000'000, fit);
  EXPECT_EQ(SuggestTokens(fit, 39'999'999'999), 0);
  EXPECT_EQ(SuggestTokens(fit, 40'000'000'000), 16384);
  EXPECT_EQ(SuggestTokens(fit, 44'000'000'000), 18022);
  EXPECT_EQ(SuggestTokens(fit, 80'000'000'000), 20480);
}

// A counter that is never reset shows the largest micro-batch so far, as if tokens needed no
// memory.
TEST(MemoryFitTest, ACounterThatIsNotResetDoesNotPromiseMore) {
  for (const uint64_t seed : testing::Seeds(150)) {
    RandomStream random(seed);
    const Memory memory = RandomMemory(random);
    MemoryFit fit;
    uint64_t most = 0;
    uint64_t counter = 0;
    for (int i = 0; i < 100; ++i) {
      const auto tokens = static_cast<uint64_t>(LogUniform(random, 10, 15));
      most = std::max(most, tokens);
      counter = std::max(counter, memory.Of(tokens, random));
      AddPeak(tokens, counter, fit);
    }
    const double limit = static_cast<double>(counter) * (1 + random.Uniform());
    const uint32_t suggested = SuggestTokens(fit, static_cast<uint64_t>(limit));
    EXPECT_GE(suggested, most);
    EXPECT_LE(suggested, (limit - memory.constant) / memory.per_token * 1.001) << seed;
  }
}

TEST(MemoryFitTest, WhatLongAgoTookMoreIsForgotten) {
  MemoryFit fit;
  AddPeak(8192, 90'000'000'000, fit);
  for (uint64_t i = 0; i < kPeakGeneration; ++i) AddPeak(8192, 20'000'000'000, fit);
  EXPECT_EQ(SuggestTokens(fit, 40'000'000'000), 0);
  for (uint64_t i = 0; i < kPeakGeneration; ++i) AddPeak(8192, 20'000'000'000, fit);
  EXPECT_EQ(SuggestTokens(fit, 40'000'000'000), 10240);
}

TEST(MemoryFitTest, OfMoreClassesThanItKeepsThoseOfMostTokensStay) {
  MemoryFit fit;
  for (uint64_t tokens = 1; tokens < (uint64_t{1} << 31); tokens += 1 + tokens / 20) {
    AddPeak(tokens, 1000 + tokens, fit);
    ASSERT_LE(fit.current.size(), kPeakClasses);
  }
  EXPECT_GT(fit.current.back().max_tokens, uint64_t{1} << 30);
  EXPECT_TRUE(std::ranges::is_sorted(fit.current, {}, &PeakClass::min_tokens));
}

TEST(MemoryFitTest, ClassesRiseWithTheTokensAndAreASixteenthOfAnOctaveWide) {
  uint32_t before = PeakClassOf(1);
  for (uint64_t tokens = 2; tokens < 100000; ++tokens) {
    const uint32_t index = PeakClassOf(tokens);
    ASSERT_GE(index, before);
    if (tokens <= 32) {
      ASSERT_GT(index, before);
    }
    before = index;
  }
  EXPECT_EQ(PeakClassOf(1024), PeakClassOf(1024 + 63));
  EXPECT_NE(PeakClassOf(1024), PeakClassOf(1024 + 64));
  EXPECT_LT(PeakClassOf(std::numeric_limits<uint32_t>::max()), 1024);
}

}  // namespace
}  // namespace batchplan
