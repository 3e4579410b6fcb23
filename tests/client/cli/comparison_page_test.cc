// What the page of a comparison holds. How it looks is for eyes.

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/reports/comparison.h"
#include "tests/client/cli/canned_planner.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/page_data.h"

namespace batchplan::cli {
namespace {

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
