// Flags that say which columns are loads (Manifest.loads), what they cost and what limits they
// have.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_LOAD_FLAGS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_LOAD_FLAGS_H_

#include <CLI/CLI.hpp>
#include <vector>

#include "batchplan/v1/options.pb.h"
#include "client/cli/input/read_lengths.h"

namespace batchplan::cli {

// Each adds one flag to `app`, which fills the last argument, and returns it. What it fills must
// outlive the parse. Wrong values are CLI::ValidationError.

// --loads patches:items,frames
CLI::Option* AddLoadColumnsFlag(CLI::App* app, std::vector<LoadColumn>* loads);

// --limit patches=8192,frames=100
CLI::Option* AddLimitFlag(CLI::App* app, v1::Pass* pass);

// --load_cost patches=0.5:dealt,frames=2
CLI::Option* AddLoadCostFlag(CLI::App* app, v1::CostModel* costs);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_LOAD_FLAGS_H_
