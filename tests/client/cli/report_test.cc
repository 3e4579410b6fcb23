#include "client/cli/reports/report.h"

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "client/cli/output/table.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::cli {
namespace {

Report SmallReport() {
  Figures figures;
  figures.metrics.set_microbatches(1234);
  figures.metrics.set_lower_bound_microbatches(1200);
  figures.metrics.set_true_tokens(9007199254740993);
  figures.metrics.set_bin_utilization(0.875);
  figures.metrics.set_padding_removed(0.5);
  figures.metrics.set_rank_cost_imbalance(1.0625);
  figures.metrics.set_lower_bound_step_time(1000);
  figures.metrics.set_predicted_step_time(1250);
  figures.step_times = {.lockstep = 1000000.25, .accumulated = 2.25};
  figures.planning_milliseconds = 1.5;
  Report report;
  report.title = "the title\n";
  report.before = {{"", "name", Justify::kLeft, "name"}};
  report.after = {{"", "share", Justify::kRight, "its_share"}};
  report.legend = "the best";
  report.rows.push_back({.before = {TextCell("good")},
                         .figures = figures,
                         .after = {DecimalCell(0.1)},
                         .best = true});
  report.rows.push_back({.before = {TextCell("long")},
                         .figures = absl::InvalidArgumentError("\"a\", too long"),
                         .after = {},
                         .best = false});
  report.rows.push_back({.before = {TextCell("new")},
                         .figures = absl::UnimplementedError("not yet"),
                         .after = {},
                         .best = false});
  report.rows.push_back(report.rows[1]);
  return report;
}

TEST(Report, TableMarksTheBestAndExplainsRefusals) {
  EXPECT_EQ(
      FormatReportTable(SmallReport()),
      "the title\n"
      "          micro-  lower          bin  padding       rank  step time,   step time,   above  "
      "planning\n"
      "   name  batches  bound  utilization  removed  imbalance    lockstep  accumulated   bound  "
      "    time  share\n"
      "*  good    1,234  1,200        87.5%    50.0%      1.062   1,000,000         2.25  25.00%  "
      "  1.5 ms    0.1\n"
      "   long        -      -            -        -          -           -            -       -  "
      "       -      -  [1]\n"
      "   new         -      -            -        -          -           -            -       -  "
      "       -      -  [2]\n"
      "   long        -      -            -        -          -           -            -       -  "
      "       -      -  [1]\n"
      "* the best\n"
      "[1] \"a\", too long\n"
      "[2] UNIMPLEMENTED: not yet\n");
}

TEST(Report, ATableHasTheBubbleWhereThereIsOne) {
  Report report = SmallReport();
  report.rows.resize(2);
  report.rows[0].figures->metrics.set_pipeline_bubble(0.1875);
  EXPECT_EQ(
      FormatReportTable(report),
      "the title\n"
      "          micro-  lower          bin  padding       rank  step time,   step time,   above  "
      "pipeline  planning\n"
      "   name  batches  bound  utilization  removed  imbalance    lockstep  accumulated   bound  "
      "  bubble      time  share\n"
      "*  good    1,234  1,200        87.5%    50.0%      1.062   1,000,000         2.25  25.00%  "
      "   18.8%    1.5 ms    0.1\n"
      "   long        -      -            -        -          -           -            -       -  "
      "       -         -      -  [1]\n"
      "* the best\n"
      "[1] \"a\", too long\n");
}

TEST(Report, CsvQuotesReasons) {
  EXPECT_EQ(FormatReportCsv(SmallReport()),
            "name,best,microbatches,lower_bound_microbatches,bin_utilization,padding_removed,"
            "rank_cost_imbalance,lockstep_step_time,accumulated_step_time,step_time_above_bound,"
            "pipeline_bubble,planning_milliseconds,its_share,error\n"
            "good,1,1234,1200,0.875,0.5,1.0625,1000000.25,2.25,0.25,0,1.5,0.1,\n"
            "long,0,,,,,,,,,,,,\"\"\"a\"\", too long\"\n"
            "new,0,,,,,,,,,,,,\"UNIMPLEMENTED: not yet\"\n"
            "long,0,,,,,,,,,,,,\"\"\"a\"\", too long\"\n");
}

TEST(Report, JsonHasAllMetricsOrTheError) {
  const absl::StatusOr<std::string> json = FormatReportJson(SmallReport());
  ASSERT_TRUE(json.ok()) << json.status();
  google::protobuf::ListValue rows;
  ASSERT_TRUE(FromJson(*json, &rows).ok()) << *json;
  ASSERT_EQ(rows.values_size(), 4);
  const auto& good = rows.values(0).struct_value().fields();
  EXPECT_EQ(good.at("name").string_value(), "good");
  EXPECT_TRUE(good.at("best").bool_value());
  EXPECT_EQ(good.at("microbatches").number_value(), 1234);
  EXPECT_EQ(good.at("lockstepStepTime").number_value(), 1000000.25);
  EXPECT_EQ(good.at("itsShare").number_value(), 0.1);
  // protobuf writes 64-bit integers as strings in JSON, so that no digit is lost.
  EXPECT_EQ(good.at("metrics").struct_value().fields().at("trueTokens").string_value(),
            "9007199254740993");
  const auto& refused = rows.values(1).struct_value().fields();
  EXPECT_EQ(refused.count("metrics"), 0U);
  const auto& error = refused.at("error").struct_value().fields();
  EXPECT_EQ(error.at("code").string_value(), "INVALID_ARGUMENT");
  EXPECT_EQ(error.at("message").string_value(), "\"a\", too long");
}

TEST(Report, WithoutAPlanAllReasonsAreTold) {
  EXPECT_TRUE(CheckAnyPlanned(SmallReport()).ok());
  Report report = SmallReport();
  report.rows.erase(report.rows.begin());
  const absl::Status status = CheckAnyPlanned(report);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "\"a\", too long\n  not yet");
}

TEST(Footnotes, TheSameReasonHasTheSameMark) {
  Footnotes notes;
  EXPECT_EQ(notes.Mark("a"), "[1]");
  EXPECT_EQ(notes.Mark("b"), "[2]");
  EXPECT_EQ(notes.Mark("a"), "[1]");
  EXPECT_EQ(notes.ToString(), "[1] a\n[2] b\n");
}

TEST(Table, NumbersAreGroupedByThousands) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(18446744073709551615U), "18,446,744,073,709,551,615");
  EXPECT_EQ(Percent(0.9371), "93.7%");
  EXPECT_EQ(Decimal(0.1234567), "0.123457");
  EXPECT_EQ(Decimal(99999.94), "99999.9");
  EXPECT_EQ(Decimal(1234567.8), "1,234,568");
  EXPECT_EQ(Decimal(1e20), "1e+20");
  EXPECT_EQ(Milliseconds(12.345), "12.3 ms");
}

}  // namespace
}  // namespace batchplan::cli
