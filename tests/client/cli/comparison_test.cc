#include "client/cli/reports/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/reports/figures.h"
#include "tests/client/cli/canned_planner.h"

namespace batchplan::cli {
namespace {

using ::testing::HasSubstr;

v1::PlanBatchRequest Request() {
  v1::PlanBatchRequest request;
  for (const uint32_t length : {5, 3, 4, 2, 1, 7}) request.mutable_manifest()->add_lengths(length);
  request.add_passes()->set_max_tokens_per_microbatch(16);
  return request;
}

std::string Best(const std::vector<ComparisonRow>& rows) {
  std::string best;
  for (const ComparisonRow& row : rows) {
    if (row.best) best += row.candidate.name;
  }
  return best;
}

v1::Packer PackerOf(const v1::PlanBatchRequest& request) {
  return request.passes(0).packed().packer();
}

TEST(Comparison, BestHasLeastStepTimeThenFewerMicrobatchesThenComesFirst) {
  const auto best = [](auto metrics_of) {
    return Best(Compare(
        MakeCannedClient([&](const v1::PlanBatchRequest& request)
                             -> absl::StatusOr<v1::PlanMetrics> { return metrics_of(request); }),
        Request(), 0));
  };
  EXPECT_EQ(best([](const v1::PlanBatchRequest& request) {
              return CannedMetrics(PackerOf(request) == v1::PACKER_BEST_FIT_DECREASING ? 1 : 2, 9);
            }),
            "best_fit_decreasing");
  EXPECT_EQ(best([](const v1::PlanBatchRequest& request) {
              return CannedMetrics(2, PackerOf(request) == v1::PACKER_FIRST_FIT_SHUFFLE ? 8 : 9);
            }),
            "first_fit_shuffle");
  EXPECT_EQ(best([](const v1::PlanBatchRequest& request) {
              const bool late = PackerOf(request) == v1::PACKER_CONCATENATIVE ||
                                PackerOf(request) == v1::PACKER_FIRST_FIT_SHUFFLE;
              return CannedMetrics(late ? 1 : 2, 9);
            }),
            "concatenative");
}

TEST(Comparison, CandidatesReplaceTheAlgorithmAndKeepTheRest) {
  v1::PlanBatchRequest request = Request();
  request.set_preset("nemo_rl_packing");
  request.mutable_passes(0)->set_sharding(v1::SHARDING_CONTIGUOUS);
  request.mutable_passes(0)->set_order(v1::MICROBATCH_ORDER_LARGEST_FIRST);
  request.mutable_passes(0)->mutable_packed()->set_packer(v1::PACKER_CONCATENATIVE);
  request.mutable_passes(0)->mutable_packed()->set_rows(v1::ROW_PADDING_LONGEST);
  *request.add_passes() = request.passes(0);

  const v1::PlanBatchRequest packer =
      WithCandidate({CandidateKind::kPacker, "best_fit_decreasing"}, request);
  EXPECT_EQ(packer.preset(), "");
  EXPECT_EQ(packer.passes(0).sharding(), v1::SHARDING_DEAL_BINS);
  // The first pass alone says which rank holds a sequence.
  EXPECT_EQ(packer.passes(1).sharding(), v1::SHARDING_UNSPECIFIED);
  for (const v1::Pass& pass : packer.passes()) {
    EXPECT_EQ(pass.packed().packer(), v1::PACKER_BEST_FIT_DECREASING);
    EXPECT_EQ(pass.packed().rows(), v1::ROW_PADDING_LONGEST);
    EXPECT_EQ(pass.order(), v1::MICROBATCH_ORDER_LARGEST_FIRST);
  }

  const v1::PlanBatchRequest scan = WithCandidate({CandidateKind::kScan, "optimal"}, request);
  EXPECT_EQ(scan.passes(0).padded().scan(), v1::SCAN_OPTIMAL);
  EXPECT_EQ(scan.passes(0).sharding(), v1::SHARDING_STRIDE_SORTED);
  EXPECT_FALSE(scan.passes(0).has_packed());

  const v1::PlanBatchRequest preset =
      WithCandidate({CandidateKind::kPreset, "nemo_rl_packing"}, request);
  EXPECT_EQ(preset.preset(), "nemo_rl_packing");
  EXPECT_EQ(preset.passes(0).sharding(), v1::SHARDING_UNSPECIFIED);
  EXPECT_EQ(preset.passes(0).packed().packer(), v1::PACKER_UNSPECIFIED);
  EXPECT_EQ(preset.passes(0).packed().rows(), v1::ROW_PADDING_LONGEST);
}

TEST(Comparison, PassesAreFoundByName) {
  v1::PlanBatchRequest request = Request();
  request.mutable_passes(0)->set_name("train");
  request.add_passes()->set_name("logprobs");
  EXPECT_EQ(*FindPass(request, ""), 0);
  EXPECT_EQ(*FindPass(request, "logprobs"), 1);
  const absl::Status missing = FindPass(request, "eval").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("no pass \"eval\"; it has \"train\", \"logprobs\""));
  EXPECT_FALSE(FindPass(v1::PlanBatchRequest(), "").ok());
}

TEST(Comparison, PlannersOwnStepTimeStandsUnderTheRequestsSynchronization) {
  v1::PlanBatchRequest request = Request();
  request.mutable_passes(0)->mutable_packed()->set_packer(v1::PACKER_CONCATENATIVE);
  const Client client =
      MakeCannedClient([](const v1::PlanBatchRequest&) -> absl::StatusOr<v1::PlanMetrics> {
        return CannedMetrics(42, 7);
      });
  EXPECT_EQ(PlanFigures(client, request, 0)->step_times.lockstep, 42);
  EXPECT_EQ(PlanFigures(client, request, 0)->step_times.accumulated, 0);
  request.set_synchronization(v1::SYNCHRONIZATION_ACCUMULATED);
  EXPECT_EQ(PlanFigures(client, request, 0)->step_times.accumulated, 42);
  EXPECT_EQ(PlanFigures(client, request, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace batchplan::cli
