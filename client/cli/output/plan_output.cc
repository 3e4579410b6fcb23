#include "client/cli/output/plan_output.h"

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input/choice.h"
#include "client/cli/output/outcome.h"
#include "client/cli/output/plan_files.h"
#include "client/cli/output/plan_table.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/checker/check_plan.h"
#include "server/explain/plan_sentences.h"
#include "server/planner/plan.h"

namespace batchplan::cli {
namespace {

// Checks that `response` keeps every promise for the request in `parsed`, including its
// fingerprint.
absl::Status Verify(const ParsedRequest& parsed, const v1::PlanBatchResponse& response) {
  absl::StatusOr<Plan> plan = ParseResponse(response);
  if (!plan.ok()) return plan.status();
  if (absl::Status checked = CheckPlan(parsed.manifest, parsed.options, *plan); !checked.ok()) {
    return checked;
  }
  if (const std::string fingerprint = Fingerprint(*plan); fingerprint != response.fingerprint()) {
    return absl::InternalError(absl::StrCat("the fingerprint is ", response.fingerprint(),
                                            ", but the plan's is ", fingerprint));
  }
  return absl::OkStatus();
}

// Explains why ranks wait in a plan of any planner.
absl::StatusOr<PlanSentences> Sentences(const ParsedRequest& parsed,
                                        const v1::PlanBatchResponse& response) {
  absl::StatusOr<Plan> plan = ParseResponse(response);
  if (!plan.ok()) return plan.status();
  return SentencesOfPlan(parsed.manifest, parsed.options, *plan);
}

absl::StatusOr<std::string> Format(const std::string& format, const AnsweredPlan& answer,
                                   const v1::PlanBatchRequest& request, const ParsedRequest& parsed,
                                   bool verified) {
  const PlanOptions& options = parsed.options;
  if (format == "json") return ToCompleteJson(answer.message);
  if (format == "csv") return FormatMicrobatchesCsv(options, answer.plan);
  if (format == "sequences_csv") return FormatSequencesCsv(options, answer.plan);
  const PlanOrigin origin = {answer.where, verified};
  const absl::StatusOr<PlanSentences> sentences = Sentences(parsed, answer.plan);
  if (format == "html") return FormatPlanPage(request, options, answer.plan, origin, sentences);
  return FormatPlanTable(request, options, answer.plan, origin, sentences);
}

}  // namespace

void PlanOutput::AddTo(CLI::App* app, const std::string& message) {
  app->add_flag("--verify", verify_, "Prove that the plan keeps every promise")->group("Output");
  app->add_option("--format", format_,
                  absl::StrCat("table; json, the ", message,
                               "; csv, a line a micro-batch; sequences_csv, a line a sequence; "
                               "both have a group of --dynamic_cp by its first rank and its size; "
                               "html, a page with the picture [table]"))
      ->check(OneOf({"table", "json", "csv", "sequences_csv", "html"}))
      ->type_name("NAME")
      ->group("Output");
}

ExitCode PlanOutput::Print(const char* command, const AnsweredPlan& answer) const {
  // Fitted costs are known to the server; the plan says which it used.
  v1::PlanBatchRequest request;
  const bool fitted = answer.request.cost_model().fitted();
  if (fitted) {
    request = answer.request;
    *request.mutable_cost_model() = answer.plan.cost_model_used();
  }
  const v1::PlanBatchRequest& planned = fitted ? request : answer.request;

  // Without a request that this program can read, nothing can be said about the plan.
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(planned);
  if (!parsed.ok()) return ReportError(command, parsed.status());
  if (verify_) {
    if (absl::Status verified = Verify(*parsed, answer.plan); !verified.ok()) {
      ReportError(command, verified);
      return ExitCode::kVerificationFailed;
    }
  }
  return PrintOrReport(command, Format(format_, answer, planned, *parsed, verify_));
}

}  // namespace batchplan::cli
