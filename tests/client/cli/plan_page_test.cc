// The content of a plan's page, not its looks.

#include "server/pages/plan_page.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/output/plan_files.h"
#include "proto/batchplan/v1/json.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/page_data.h"

namespace batchplan::cli {
namespace {

using ::google::protobuf::util::MessageDifferencer;
// A plan on two ranks with everything that its page can show.
struct Example {
  v1::PlanBatchRequest request;
  PlanOptions options;
  v1::PlanBatchResponse response;

  PlanSentences sentences = {.waiting = {{"Ranks wait for \"5\"."}}, .deferral = {}};

  // Lengths [5, 3 | 2], [4 | -]: the last micro-batch is empty.
  void AddPass(Layout layout, const std::string& name) {
    request.add_passes()->set_max_tokens_per_microbatch(16);
    options.passes.emplace_back().layout = layout;
    v1::PassPlan* plan = response.add_passes();
    plan->set_name(name);
    for (const uint32_t index : {0, 1, 3, 2}) plan->add_sequence_index(index);
    for (const uint32_t length : {5, 3, 2, 4}) plan->add_sequence_lengths(length);
    for (const uint32_t offset : {0, 2, 3, 4, 4}) plan->add_microbatch_offsets(offset);
    const uint32_t first = layout == Layout::kPadded ? 8 : 12;
    for (const uint32_t width : {first, 4U, 4U, 0U}) plan->add_row_widths(width);
    plan->add_microbatches_per_rank(2);
    plan->set_length_multiple(4);
    plan->mutable_metrics()->set_microbatches(4);
    plan->mutable_metrics()->set_true_tokens(14);
  }

  std::string Page() const {
    const auto page = FormatPlanPage(request, options, response, {"in process", true}, sentences);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.value_or("");
  }
};

Example MakeExample(Layout layout) {
  Example example;
  for (const uint32_t length : {5, 3, 4, 2}) {
    example.request.mutable_manifest()->add_lengths(length);
  }
  example.options.topology.data_parallel = 2;
  example.response.set_fingerprint("f00");
  example.response.mutable_cost_model_used()->set_per_token(1);
  example.AddPass(layout, "train");
  return example;
}

size_t Occurrences(absl::string_view text, absl::string_view what) {
  return std::vector<absl::string_view>(absl::StrSplit(text, what)).size() - 1;
}

TEST(PlanPage, LoadsNothingFromAnywhere) { ExpectStandsAlone(MakeExample(Layout::kPacked).Page()); }

TEST(PlanPage, HoldsTheWholePlan) {
  for (const Layout layout : {Layout::kPacked, Layout::kPadded}) {
    const Example example = MakeExample(layout);
    const auto response = Embedded<v1::PlanBatchResponse>(example.Page(), "response");
    EXPECT_TRUE(MessageDifferencer::Equals(response, example.response));
    EXPECT_EQ(response.passes(0).row_widths(3), 0U);
  }
}

TEST(PlanPage, SaysWhatTheRequestLeftToThePreset) {
  Example example = MakeExample(Layout::kPadded);
  example.AddPass(Layout::kPacked, "logprobs");
  example.options.synchronization = Synchronization::kAccumulated;
  const auto request = Embedded<v1::PlanBatchRequest>(example.Page(), "request");
  EXPECT_TRUE(request.passes(0).has_padded());
  EXPECT_TRUE(request.passes(1).has_packed());
  EXPECT_EQ(request.topology().data_parallel(), 2U);
  EXPECT_EQ(request.topology().pipeline_parallel(), 1U);
  EXPECT_EQ(request.synchronization(), v1::SYNCHRONIZATION_ACCUMULATED);
  // The plan has the lengths.
  EXPECT_EQ(request.manifest().lengths_size(), 0);
}

TEST(PlanPage, SaysWhatTheRequestLeftOutOfThePipeline) {
  Example example = MakeExample(Layout::kPacked);
  EXPECT_FALSE(Embedded<v1::PlanBatchRequest>(example.Page(), "request").has_pipeline());
  example.request.mutable_pipeline()->set_transfer(3);
  example.options.topology.pipeline_parallel = 2;
  example.options.pipeline.transfer = 3;
  const auto of_stages = Embedded<v1::PlanBatchRequest>(example.Page(), "request").pipeline();
  EXPECT_THAT(of_stages.stage_shares(), ::testing::ElementsAre(0.5, 0.5));
  EXPECT_EQ(of_stages.backward_ratio(), 2);
  EXPECT_EQ(of_stages.transfer(), 3);
  EXPECT_EQ(of_stages.group_size(), 0U);
  example.options.topology.virtual_pipeline = 2;
  example.options.pipeline.backward_ratio = 1.5;
  example.options.pipeline.stage_shares = {1, 2, 3, 4};
  const auto of_chunks = Embedded<v1::PlanBatchRequest>(example.Page(), "request").pipeline();
  EXPECT_THAT(of_chunks.stage_shares(), ::testing::ElementsAre(0.1, 0.2, 0.3, 0.4));
  EXPECT_EQ(of_chunks.backward_ratio(), 1.5);
  EXPECT_EQ(of_chunks.group_size(), 2U);
}

TEST(PlanPage, SaysWhereThePlanWasMade) {
  const auto origin =
      Embedded<google::protobuf::Struct>(MakeExample(Layout::kPacked).Page(), "origin");
  EXPECT_EQ(origin.fields().at("where").string_value(), "in process");
  EXPECT_TRUE(origin.fields().at("verified").bool_value());
}

TEST(PlanPage, WhyRanksWaitIsEmbedded) {
  EXPECT_EQ(EmbeddedJson(MakeExample(Layout::kPacked).Page(), "sentences"),
            R"({"waiting":[["Ranks wait for \"5\"."]],"deferral":[]})");
}

TEST(PlanPage, NamesStayText) {
  Example example = MakeExample(Layout::kPacked);
  const std::string harmless = example.Page();
  const std::string name = "</script><script>alert(1)</script><!-- <script \"'\\ \u2028 & -->";
  example.request.set_job_id(name);
  example.response.mutable_passes(0)->set_name(name);
  const std::string page = example.Page();
  for (const char* markup : {"</script", "<script", "<!--", "-->"}) {
    EXPECT_EQ(Occurrences(page, markup), Occurrences(harmless, markup)) << markup;
  }
  EXPECT_EQ(Embedded<v1::PlanBatchRequest>(page, "request").job_id(), name);
  EXPECT_EQ(Embedded<v1::PlanBatchResponse>(page, "response").passes(0).name(), name);
}

TEST(PlanPage, PlanThatDoesNotFitIsRefused) {
  Example example = MakeExample(Layout::kPacked);
  example.options.topology.data_parallel = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(
      FormatPlanPage(example.request, example.options, example.response, {}, PlanSentences())
          .status()));
  example.options.topology.data_parallel = 2;
  example.options.passes.emplace_back();
  EXPECT_TRUE(absl::IsInvalidArgument(
      FormatPlanPage(example.request, example.options, example.response, {}, PlanSentences())
          .status()));
}

TEST(PlanPage, CommandPrintsThePageOfThePlan) {
  const std::vector<std::string> flags = {
      "plan",     "--lengths",       "-",       "--dp", "2", "--budget", "64",
      "--preset", "nemo_rl_packing", "--format"};
  const auto run = [&](const std::string& format) {
    std::vector<std::string> arguments = flags;
    arguments.push_back(format);
    CliResult result = RunCli(arguments, "5\n60\n33\n31\n12\n");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  v1::PlanBatchResponse plan;
  ASSERT_TRUE(FromJson(run("json"), &plan).ok());
  const auto shown = Embedded<v1::PlanBatchResponse>(run("html"), "response");
  EXPECT_EQ(shown.fingerprint(), plan.fingerprint());
  EXPECT_TRUE(MessageDifferencer::Equals(shown.passes(0), plan.passes(0)));
}

TEST(Page, DataGoesToItsPlaceAndCannotLeaveIt) {
  EXPECT_EQ(FillPage("<p>\n<!-- DATA -->\n</p>\n", {{"a", "\"<>\""}, {"b", "1"}}),
            "<p>\n<script type=\"application/json\" id=\"a\">\"\\u003c\\u003e\"</script>\n"
            "<script type=\"application/json\" id=\"b\">1</script>\n</p>\n");
  EXPECT_EQ(Occurrences(PlanPageTemplate(), "<!-- DATA -->\n"), 1U);
}

}  // namespace
}  // namespace batchplan::cli
