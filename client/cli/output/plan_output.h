// What a command that has a plan does with it: proves it if asked to, and prints it.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_OUTPUT_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_OUTPUT_H_

#include <google/protobuf/message.h>

#include <CLI/CLI.hpp>
#include <string>

#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/output/outcome.h"

namespace batchplan::cli {

// A plan, and what it answers. Views: the messages must outlive it.
struct AnsweredPlan {
  // With the whole batch's manifest.
  const v1::PlanBatchRequest& request;
  const v1::PlanBatchResponse& plan;
  // What --format json prints.
  const google::protobuf::Message& message;
  // The place that made the plan: "in process", or "by " and the server's address.
  std::string where;
};

// Not thread-safe. Must outlive the parse.
class PlanOutput {
 public:
  // Adds --verify and --format; `message` is the name of what --format json prints.
  void AddTo(CLI::App* app, const std::string& message);

  // The format asked for is JSON, which needs nothing but the message.
  bool json() const { return format_ == "json"; }
  bool verify() const { return verify_; }

  // Writes to stdout, or an error to stderr. kVerificationFailed if the plan breaks a promise.
  ExitCode Print(const char* command, const AnsweredPlan& answer) const;

 private:
  std::string format_ = "table";
  bool verify_ = false;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_OUTPUT_H_
