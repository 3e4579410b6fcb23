#include "client/cli/reports/comparison.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "client/cli/reports/figures.h"
#include "tests/client/cli/canned_planner.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/page_data.h"

namespace batchplan::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

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
  // Only the first pass decides which rank has a sequence.
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

TEST(Comparison, WhereTheManifestGivesRanksNoCandidateShards) {
  v1::PlanBatchRequest request = Request();
  for (const uint32_t rank : {0, 0, 0, 0, 0, 0}) request.mutable_manifest()->add_ranks(rank);
  for (const Candidate& candidate : ListCandidates({})) {
    EXPECT_EQ(WithCandidate(candidate, request).passes(0).sharding(), v1::SHARDING_UNSPECIFIED)
        << candidate.name;
  }
}

TEST(Comparison, WhereSequencesShareItStandsBesideNothingSharedAndGroupsTogether) {
  v1::PlanBatchRequest request = Request();
  const auto names = [&request] {
    std::vector<std::string> names;
    for (const Candidate& candidate : ListCandidates(request)) {
      names.push_back(KindName(candidate.kind) + " " + candidate.name);
    }
    return names;
  };
  EXPECT_THAT(names(), Not(Contains("sharing none")));
  v1::Manifest& manifest = *request.mutable_manifest();
  manifest.clear_lengths();
  for (uint32_t i = 0; i < 12; ++i) {
    manifest.add_lengths(60 + i);
    manifest.add_shared_prefixes(50);
    manifest.add_group_ids(i / 4);
  }
  request.mutable_topology()->set_data_parallel(2);
  request.mutable_passes(0)->set_max_tokens_per_microbatch(256);
  EXPECT_THAT(names(), Contains("sharing none"));
  EXPECT_THAT(names(), Contains("groups same_rank"));

  std::map<std::string, v1::PlanMetrics> planned;
  for (const ComparisonRow& row : Compare(Client(MakeInProcessConnection()), request, 0)) {
    ASSERT_TRUE(row.figures.ok()) << row.candidate.name << ": " << row.figures.status();
    planned[row.candidate.name] = row.figures->metrics;
  }
  EXPECT_GT(planned["balanced"].laid_tokens(), 0U);
  EXPECT_GT(planned["same_rank"].laid_tokens(), 0U);
  EXPECT_EQ(planned["none"].laid_tokens(), 0U);
  EXPECT_EQ(planned["optimal"].laid_tokens(), 0U) << "a padded row shares nothing";
  EXPECT_LE(planned["balanced"].predicted_step_time(), planned["none"].predicted_step_time());
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

TEST(Comparison, OfAPoolHasThePresetsThatDivideItAndEveryFixedSize) {
  v1::PlanBatchRequest request;
  request.mutable_topology()->set_data_parallel(2);
  request.mutable_topology()->set_context_parallel(3);
  request.mutable_topology()->mutable_dynamic_context();
  request.add_passes()->set_max_tokens_per_microbatch(30);
  for (const uint32_t bucket : {12, 30}) {
    request.mutable_passes(0)->mutable_packed()->add_buckets(bucket);
  }
  const std::vector<Candidate> candidates = ListCandidates(request);
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"balanced", "megatron_dynamic_cp", "1", "2", "3", "6"}));
  const v1::PlanBatchRequest fixed = WithCandidate(candidates[3], request);
  EXPECT_FALSE(fixed.topology().has_dynamic_context());
  EXPECT_EQ(fixed.topology().data_parallel(), 3U);
  EXPECT_EQ(fixed.topology().context_parallel(), 2U);
  EXPECT_EQ(fixed.passes(0).max_tokens_per_microbatch(), 20U);
  EXPECT_EQ(fixed.passes(0).packed().buckets(0), 8U);
  EXPECT_EQ(fixed.passes(0).packed().buckets(1), 20U);
  // The costs are those of the pool, including its exchange.
  EXPECT_EQ(fixed.cost_model().per_microbatch(), 1024);
  EXPECT_EQ(fixed.cost_model().exchange_size(), 2);
}

TEST(Comparison, OfAPoolFixedSizesThatCutOtherTokensAreRefused) {
  v1::PlanBatchRequest request;
  for (const uint32_t length : {100, 30, 20}) request.mutable_manifest()->add_lengths(length);
  request.set_overlong(v1::OVERLONG_POLICY_TRUNCATE);
  request.mutable_topology()->set_data_parallel(4);
  request.mutable_topology()->mutable_dynamic_context();
  request.add_passes()->set_max_tokens_per_microbatch(40);
  std::vector<std::string> planned;
  for (const ComparisonRow& row : Compare(Client(MakeInProcessConnection()), request, 0)) {
    if (row.figures.ok()) {
      planned.push_back(row.candidate.name);
    } else if (row.candidate.name == "2") {
      EXPECT_EQ(std::string(row.figures.status().message()),
                "overlong cuts or drops sequences of other lengths here: 130 tokens are planned, "
                "in the pool 150");
    }
  }
  EXPECT_EQ(planned, (std::vector<std::string>{"balanced", "megatron_dynamic_cp", "4"}));
}

// Tests the content of the page, not its looks.

TEST(ComparisonPage, CommandPrintsAPageThatStandsAlone) {
  const std::vector<std::string> flags = {"compare",     "--lengths", "-",   "--dp",
                                          "2",           "--budget",  "64",  "--sync",
                                          "accumulated", "--format",  "html"};
  const CliResult result = RunCli(flags, "5\n60\n33\n31\n12\n7\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ExpectStandsAlone(result.out);

  const auto rows = Embedded<google::protobuf::ListValue>(result.out, "rows");
  const auto request = Embedded<v1::PlanBatchRequest>(result.out, "request");
  const auto response = Embedded<v1::PlanBatchResponse>(result.out, "response");
  EXPECT_EQ(request.synchronization(), v1::SYNCHRONIZATION_ACCUMULATED);
  EXPECT_EQ(request.topology().data_parallel(), 2U);
  int planned = 0;
  for (const google::protobuf::Value& row : rows.values()) {
    if (row.struct_value().fields().contains("error")) continue;
    ASSERT_LT(planned, response.passes_size());
    const v1::PassPlan& plan = response.passes(planned++);
    EXPECT_EQ(plan.row_widths_size(),
              row.struct_value().fields().at("microbatches").number_value());
    EXPECT_EQ(plan.sequence_lengths_size(), 6);
  }
  EXPECT_GT(planned, 1);
  EXPECT_EQ(response.passes_size(), planned);
  EXPECT_EQ(request.passes_size(), planned);
}

TEST(ComparisonPage, OfAPoolEveryPlanHasTheSizesOfItsGroups) {
  const CliResult result = RunCli({"compare", "--lengths", "-", "--dp", "3", "--cp", "2",
                                   "--dynamic_cp", "1", "--budget", "64", "--format", "html"},
                                  "5\n60\n33\n31\n12\n7\n22\n9\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto rows = Embedded<google::protobuf::ListValue>(result.out, "rows");
  const auto request = Embedded<v1::PlanBatchRequest>(result.out, "request");
  const auto response = Embedded<v1::PlanBatchResponse>(result.out, "response");
  EXPECT_TRUE(request.topology().has_dynamic_context());
  EXPECT_EQ(response.cost_model_used().exchange_size(), 2);
  int planned = 0;
  int fixed = 0;
  for (const google::protobuf::Value& row : rows.values()) {
    const auto& fields = row.struct_value().fields();
    if (fields.contains("error")) continue;
    ASSERT_LT(planned, response.passes_size());
    const v1::PassPlan& plan = response.passes(planned++);
    EXPECT_EQ(plan.context_sizes_size(), plan.row_widths_size());
    EXPECT_EQ(plan.context_sizes_size(), fields.at("microbatches").number_value());
    EXPECT_EQ(plan.sequence_lengths_size(), 8);
    if (fields.at("kind").string_value() != "cp") continue;
    ++fixed;
    for (const uint32_t size : plan.context_sizes()) {
      EXPECT_EQ(std::to_string(size), fields.at("candidate").string_value());
    }
  }
  EXPECT_EQ(response.passes_size(), planned);
  // Sizes 2, 3 and 6: the longest sequence does not fit on one rank.
  EXPECT_EQ(fixed, 3);
}

TEST(ComparisonPage, EveryPlanHasItsOwnLayoutAndRefusedRowsHaveNone) {
  const Client client =
      MakeCannedClient([](const v1::PlanBatchRequest& request) -> absl::StatusOr<v1::PlanMetrics> {
        if (request.passes(0).packed().packer() == v1::PACKER_CONCATENATIVE) {
          return absl::InvalidArgumentError("</script> does not fit");
        }
        return CannedMetrics(1, 1);
      });
  v1::PlanBatchRequest request;
  request.set_job_id("</script><script>");
  for (const uint32_t length : {5, 3}) request.mutable_manifest()->add_lengths(length);
  request.add_passes()->set_max_tokens_per_microbatch(16);
  const std::vector<ComparisonRow> rows = Compare(client, request, 0);
  const auto page = FormatComparisonPage(client, request, 0, rows);
  ASSERT_TRUE(page.ok()) << page.status();

  EXPECT_EQ(Embedded<google::protobuf::ListValue>(*page, "rows").values_size(),
            static_cast<int>(rows.size()));
  const auto shown = Embedded<v1::PlanBatchRequest>(*page, "request");
  EXPECT_EQ(shown.job_id(), request.job_id());
  int planned = 0;
  for (const ComparisonRow& row : rows) {
    if (!row.figures.ok()) continue;
    ASSERT_LT(planned, shown.passes_size());
    const v1::Pass& pass = shown.passes(planned++);
    if (row.candidate.kind == CandidateKind::kPreset) continue;
    EXPECT_EQ(pass.has_padded(), row.candidate.kind == CandidateKind::kScan);
    EXPECT_EQ(pass.has_packed(), row.candidate.kind == CandidateKind::kPacker);
  }
  EXPECT_GT(planned, 1);
  EXPECT_LT(planned, static_cast<int>(rows.size()));
  EXPECT_EQ(shown.passes_size(), planned);
}

}  // namespace
}  // namespace batchplan::cli
