#include "server/service/admission/request_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "server/planner/pass/pass.h"
#include "server/service/admission/rpc_status.h"
#include "tests/support/generators.h"
#include "tests/support/wire_request.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

OutlinedString Id(const std::string& text) { return {.text = text, .bytes = text.size()}; }

RequestOutline Outline(const std::string& job, const std::string& request, uint64_t sequences) {
  RequestOutline outline;
  outline.job_id = Id(job);
  outline.request_id = Id(request);
  outline.sequences = sequences;
  return outline;
}

TEST(LimitsTest, WhatIsWithinThemIsWelcome) {
  const RequestLimits limits = {.max_sequences = 100};
  EXPECT_TRUE(CheckLimits(Outline("", "", 0), limits).ok());
  EXPECT_TRUE(CheckLimits(Outline("grpo 7B \"run\" \xc3\xa9", "r/1", 100), limits).ok());
  EXPECT_TRUE(CheckLimits(Outline(std::string(128, 'x'), std::string(128, 'y'), 1), limits).ok());
}

TEST(LimitsTest, TooManySequencesAreRefusedByName) {
  const absl::Status status = CheckLimits(Outline("a", "b", 101), {.max_sequences = 100});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "manifest.lengths has 101 sequences, more than the server's max_sequences=100");
}

TEST(LimitsTest, SequencesCountOnceAPass) {
  RequestOutline outline = Outline("a", "b", 750'000);
  outline.passes = 2;
  EXPECT_TRUE(CheckLimits(outline, {}).ok());
  outline.passes = 64;
  const absl::Status status = CheckLimits(outline, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "manifest.lengths has 750000 sequences in 64 passes, 48000000 in all, more than the "
            "server's max_sequences=1500000");
}

TEST(LimitsTest, EmptyMicrobatchesAreCountedOverAllPasses) {
  RequestOutline outline = Outline("a", "b", 1);
  outline.allow_empty_microbatches = true;
  outline.data_parallel = 1024;
  outline.sequences = 511;
  outline.passes = 2;
  outline.pass_options = {{.min_microbatches = kMaxEmptyMicrobatches / 1024},
                          {.min_microbatches = 1}};
  const absl::Status status = CheckLimits(outline, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(kMaxEmptyMicrobatches + 1024, " micro-batches")));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("more than " + std::to_string(kMaxEmptyMicrobatches)));
  outline.pass_options.pop_back();
  EXPECT_TRUE(CheckLimits(outline, {}).ok());
}

TEST(LimitsTest, MicrobatchesThatMayEachHaveASequenceAreWelcome) {
  RequestOutline outline = Outline("a", "b", 1'500'000);
  outline.allow_empty_microbatches = true;
  outline.data_parallel = 1024;
  outline.mini_batch_size = 1024;
  outline.passes = 1;
  outline.pass_options = {{.min_microbatches = 1}};
  EXPECT_TRUE(CheckLimits(outline, {}).ok());
}

TEST(LimitsTest, AnAnswerThatIsKnownToBeTooLargeIsRefusedForGood) {
  RequestOutline outline = Outline("a", "b", 1'000'000);
  outline.passes = 1;
  EXPECT_TRUE(CheckAnswerFits(outline, 64 << 20).ok());
  const absl::Status status = CheckAnswerFits(outline, 1 << 20);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(-1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_message_bytes=1048576"));
  outline.overlong = v1::OVERLONG_POLICY_DROP;
  EXPECT_TRUE(CheckAnswerFits(outline, 1 << 20).ok()) << "nobody knows what is dropped";
}

TEST(LimitsTest, ALongIdIsRefusedByNameAndNotRepeated) {
  const absl::Status job = CheckLimits(Outline(std::string(129, 'x'), "b", 1), {});
  EXPECT_EQ(job.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(job.message(), "job_id has 129 bytes, must have at most 128");
  const absl::Status request = CheckLimits(Outline("a", std::string(200, 'x'), 1), {});
  EXPECT_EQ(request.message(), "request_id has 200 bytes, must have at most 128");
}

TEST(LimitsTest, AnIdWithControlCharactersIsRefused) {
  for (const char* id : {"forged\nline", "tab\t", "\x7f", "\x1b[0m"}) {
    const absl::Status status = CheckLimits(Outline(id, "b", 1), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_THAT(std::string(status.message()), HasSubstr("job_id \""));
    EXPECT_FALSE(CheckLimits(Outline("a", id, 1), {}).ok()) << id;
  }
  const absl::Status nul = CheckLimits(Outline(std::string("a\0b", 3), "b", 1), {});
  EXPECT_THAT(std::string(nul.message()), HasSubstr("at byte 1"));
}

TEST(LimitsTest, AnIdWithWhatIsNotSeenIsRefusedByPlace) {
  for (const auto& [character, name] :
       std::vector<std::pair<std::string, std::string>>{{"\xc2\x85", "U+0085"},
                                                        {"\xc2\xad", "U+00AD"},
                                                        {"\xe2\x80\x8b", "U+200B"},
                                                        {"\xe2\x80\xa8", "U+2028"},
                                                        {"\xe2\x80\xae", "U+202E"},
                                                        {"\xe2\x81\xa6", "U+2066"},
                                                        {"\xef\xbb\xbf", "U+FEFF"},
                                                        {"\xf3\xa0\x81\x81", "U+E0041"}}) {
    const absl::Status status = CheckLimits(Outline("ab" + character + "c", "b", 1), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has " + name + " at byte 2,"));
    // The message must not repeat the character unescaped.
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(character)));
    EXPECT_FALSE(CheckLimits(Outline("a", character, 1), {}).ok()) << name;
  }
  // Letters, marks and signs of any script are allowed.
  for (const char* id :
       {"h\xc3\xa9", "\xe4\xbd\xa0\xe5\xa5\xbd", "\xf0\x9f\x98\x80", "e\xcc\x81"}) {
    EXPECT_TRUE(CheckLimits(Outline(id, id, 1), {}).ok()) << id;
  }
}

TEST(LimitsTest, AnIdThatIsNotUtf8IsRefused) {
  EXPECT_THAT(std::string(CheckLimits(Outline("a\xff", "b", 1), {}).message()),
              HasSubstr("job_id \"a\\377\" has no character at byte 1"));
}

TEST(LimitsTest, EntriesThatWouldTakeMemoryOnceParsedAreCountedBefore) {
  RequestOutline outline;
  outline.passes = 64;
  outline.microbatches = 65536;
  EXPECT_TRUE(CheckLimits(outline, {}).ok());
  outline.passes = 65;
  EXPECT_EQ(std::string(CheckLimits(outline, {}).message()),
            "passes has 65 entries; the limit is 64");
  outline.passes = 0;
  outline.microbatches = 65537;
  EXPECT_EQ(std::string(CheckLimits(outline, {}).message()),
            "microbatches has 65537 entries; the limit is 65536");
}

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TEST(RequestCostTest, SequencesCountOnceAPass) {
  RequestOutline outline;
  outline.sequences = 900'000;
  EXPECT_EQ(CostOf(outline), 900'000U);
  outline.passes = 64;
  EXPECT_EQ(CostOf(outline), 57'600'000U);
  outline.message_bytes = 900'000;
  EXPECT_EQ(CostOf(outline), 57'600'000U);
  outline.message_bytes = 2'400'000'000;
  EXPECT_EQ(CostOf(outline), 100'000'000U);
}

TEST(RequestCostTest, SequencesThatShareCountTwice) {
  RequestOutline outline;
  outline.sequences = 1000;
  outline.passes = 3;
  outline.shared_prefixes = true;
  EXPECT_EQ(CostOf(outline), 6000U);
  outline.sequences = kMost;
  EXPECT_EQ(CostOf(outline), kMost);
}

TEST(RequestCostTest, LoadsAndItemsCountAQuarter) {
  RequestOutline outline;
  outline.sequences = 1000;
  outline.passes = 3;
  outline.load_values = 2000;
  EXPECT_EQ(CostOf(outline), 4500U);
  outline.items = 600;
  EXPECT_EQ(CostOf(outline), 4950U);
  EXPECT_TRUE(CheckLimits(outline, {.max_sequences = 3000}).ok());
  outline.items = 3001;
  EXPECT_EQ(CheckLimits(outline, {.max_sequences = 3000}).message(),
            "manifest.items has 3001 items, more than the server's max_sequences=3000");
  outline.items = kMost;
  EXPECT_GE(CostOf(outline), kMost / 4);
}

TEST(RequestCostTest, MicrobatchesCountWhereTheyMayBeEmpty) {
  RequestOutline outline;
  outline.sequences = 1;
  outline.passes = 1;
  outline.data_parallel = 65536;
  outline.pass_options = {{.min_microbatches = 256}};
  EXPECT_EQ(LeastMicrobatches(outline), 0U) << "each has a sequence, or there is no plan";
  outline.allow_empty_microbatches = true;
  EXPECT_EQ(LeastMicrobatches(outline), uint64_t{1} << 24);
  EXPECT_EQ(CostOf(outline), (uint64_t{1} << 24) + 1);
  EXPECT_GT(LeastAnswerBytes(outline), uint64_t{1} << 25);
  outline.pass_options.push_back({.min_microbatches = 255, .microbatch_count_multiple = 256});
  EXPECT_EQ(LeastMicrobatches(outline), uint64_t{2} << 24);
  // With virtual stages, the number must also be a multiple of the stages.
  outline.data_parallel = 1;
  outline.pass_options = {{.min_microbatches = 5, .microbatch_count_multiple = 6}};
  outline.pipeline_parallel = 4;
  EXPECT_EQ(LeastMicrobatches(outline), 6U);
  outline.virtual_pipeline = 2;
  EXPECT_EQ(LeastMicrobatches(outline), 12U);
  outline.sequences = 100;
  outline.mini_batch_size = 10;
  EXPECT_EQ(LeastMicrobatches(outline), 120U);
  outline.pass_options[0].ignore_mini_batches = true;
  EXPECT_EQ(LeastMicrobatches(outline), 12U);
}

TEST(RequestCostTest, OfGroupsThatDifferASlotHasAsManyAsTheLargestSizeLeaves) {
  RequestOutline outline;
  outline.sequences = 1;
  outline.passes = 1;
  outline.data_parallel = 512;
  outline.context_parallel = 2;
  outline.dynamic_context = true;
  outline.allow_empty_microbatches = true;
  outline.pass_options = {{.min_microbatches = 3}};
  EXPECT_EQ(LeastMicrobatches(outline), 3U) << "one group may take the whole pool";
  outline.max_size = 16;
  EXPECT_EQ(LeastMicrobatches(outline), 3U * 64);
  EXPECT_GT(LeastAnswerBytes(outline), 2U * 3 * 64);
  outline.pass_options = {{.min_microbatches = kMaxEmptyMicrobatches / 64 + 1}};
  EXPECT_THAT(std::string(CheckLimits(outline, {}).message()),
              HasSubstr("groups of topology.dynamic_context on 1024 ranks, more than"));
}

TEST(RequestCostTest, OfGroupsThatDifferASequenceCountsOnceASize) {
  RequestOutline outline;
  outline.sequences = 1000;
  outline.passes = 2;
  outline.data_parallel = 12;
  outline.dynamic_context = true;
  EXPECT_EQ(CostOf(outline), 2000U * 5) << "1, 2, 4, 8 and 12";
  outline.max_size = 8;
  EXPECT_EQ(CostOf(outline), 2000U * 4);
  outline.min_size = 4;
  EXPECT_EQ(CostOf(outline), 2000U * 2);
  outline.dynamic_context = false;
  EXPECT_EQ(CostOf(outline), 2000U);
}

TEST(RequestCostTest, WhatMakesNoSenseDoesNotOverflow) {
  RequestOutline outline;
  outline.sequences = kMost;
  outline.passes = kMost;
  outline.data_parallel = UINT32_MAX;
  outline.pipeline_parallel = UINT32_MAX - 1;
  outline.virtual_pipeline = UINT32_MAX;
  outline.mini_batch_size = 1;
  outline.allow_empty_microbatches = true;
  outline.pass_options.assign(
      64, {.min_microbatches = UINT32_MAX, .microbatch_count_multiple = UINT32_MAX});
  EXPECT_EQ(CostOf(outline), kMost);
  EXPECT_EQ(LeastMicrobatches(outline), kMost);
  EXPECT_EQ(LeastAnswerBytes(outline), kMost);
}

TEST(RequestCostTest, NoPlanHasLessThanItsRequestIsKnownToNeed) {
  uint64_t planned = 0;
  uint64_t empty = 0;
  for (const uint64_t seed : testing::Seeds(400)) {
    SCOPED_TRACE(seed);
    testing::GeneratedRequest generated = testing::GenerateRequest(seed);
    if (seed % 4 == 0) testing::AddSelection(seed, &generated);
    v1::PlanBatchRequest request = testing::WireRequest(generated);
    testing::RandomStream random(seed);
    request.set_allow_empty_microbatches(random.Chance(70));
    const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options, {});
    if (!plan.ok()) continue;
    v1::PlanBatchResponse response;
    FillResponse(*plan, absl::ZeroDuration(), &response);
    const RequestOutline outline = OutlineOf(request);
    uint64_t microbatches = 0;
    for (const v1::PassPlan& pass : response.passes()) microbatches += pass.row_widths_size();
    EXPECT_LE(LeastMicrobatches(outline), microbatches);
    EXPECT_LE(LeastAnswerBytes(outline), response.ByteSizeLong());
    ++planned;
    empty += LeastMicrobatches(outline) > 1 ? 1 : 0;
  }
  EXPECT_GT(planned, 50U);
  EXPECT_GT(empty, 10U);
}

}  // namespace
}  // namespace batchplan
