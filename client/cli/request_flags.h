// The flags of `batchplan plan` that make up a planning request, as opposed to those that say where
// to send it and how to print the answer.

#ifndef BATCHPLAN_CLIENT_CLI_REQUEST_FLAGS_H_
#define BATCHPLAN_CLIENT_CLI_REQUEST_FLAGS_H_

#include <CLI/CLI.hpp>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan::cli {

struct RequestFlags {
  // Every flag that writes to the request.
  std::vector<CLI::Option*> all;
  // Of these, --budget: no plan without it.
  CLI::Option* budget = nullptr;
};

// Adds the flags to `app`. They fill `request`, which gets one pass and must outlive the parse;
// fields whose flag is not given stay unset, so that the preset's values hold.
RequestFlags AddRequestFlags(CLI::App* app, v1::PlanBatchRequest* request);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REQUEST_FLAGS_H_
