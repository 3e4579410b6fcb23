#include "tests/support/invalid_loads.h"

#include <cstdint>
#include <limits>

namespace batchplan::testing {
namespace {

// Nine sequences of eight tokens on three ranks, each with memory and two images.
PassOptions& Loaded(GeneratedRequest& request) {
  request = {};
  request.lengths.assign(9, 8);
  request.loads = {{.name = "memory", .values = std::vector<double>(9, 3)},
                   {.name = "images", .values = std::vector<double>(18, 2), .has_items = true}};
  for (uint32_t i = 0; i < 18; ++i) request.loads[1].sequences.push_back(i / 2);
  request.options.topology.data_parallel = 3;
  request.options.overlong = OverlongPolicy::kReject;
  request.options.cost_model.loads = {{.load = "memory", .per_unit = 1},
                                      {.load = "images", .per_unit = 1, .dealt = true}};
  PassOptions& pass = request.options.passes.emplace_back();
  pass.max_tokens_per_microbatch = 100;
  pass.limits = {{"memory", 10}};
  return pass;
}

}  // namespace

std::vector<Mistake> LoadMistakes() {
  return {
      {"load_values", "manifest.loads[0].values of \"memory\" has 8 entries",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.loads[0].values.pop_back();
       }},
      {"load_value", "manifest.loads[0].values[4] is ",
       [](GeneratedRequest& request, RandomStream& random) {
         Loaded(request);
         request.loads[0].values[4] =
             random.OneOf<double>({-1, -1e-300, std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN()});
       }},
      {"load_items", "manifest.items[0].sequences[17] is ",
       [](GeneratedRequest& request, RandomStream& random) {
         Loaded(request);
         request.loads[1].sequences[17] = random.OneOf<uint32_t>({0, 7, 9, UINT32_MAX});
       }},
      {"kinds", "manifest.kinds has 10 entries",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.kinds.assign(10, 0);
       }},
      {"limit_of_no_load", "passes[0].limits[0].load is \"audio\"",
       [](GeneratedRequest& request, RandomStream&) { Loaded(request).limits[0].load = "audio"; }},
      {"limit_of_nothing", "passes[0].limits[0].max_per_microbatch is ",
       [](GeneratedRequest& request, RandomStream& random) {
         Loaded(request).limits[0].max_per_microbatch =
             random.OneOf<double>({0, -1, std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN()});
       }},
      {"too_much_of_a_load", "sequence 4 has 11 of load \"memory\", but passes[0].limits",
       [](GeneratedRequest& request, RandomStream& random) {
         Loaded(request);
         request.options.overlong =
             random.OneOf<OverlongPolicy>({OverlongPolicy::kReject, OverlongPolicy::kTruncate});
         request.loads[0].values[4] = 11;
       }},
      {"too_large_an_item",
       "sequence 4 has items that, dealt to all ranks, leave one with 11 of load \"images\", but "
       "passes[0].limits",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request).limits.push_back({"images", 10});
         request.loads[1].values[8] = 11;
       }},
      {"cost_of_no_load", "cost_model.loads[0].load is \"audio\"",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.options.cost_model.loads[0].load = "audio";
       }},
      {"cost_of_a_load", "cost_model.loads[1].per_unit",
       [](GeneratedRequest& request, RandomStream& random) {
         Loaded(request);
         request.options.cost_model.loads[1].per_unit =
             random.OneOf<double>({-1, 1e-101, 1e101, std::numeric_limits<double>::quiet_NaN()});
       }},
      {"dealt_without_items", "cost_model.loads[0].dealt is set, but manifest.items",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.options.cost_model.loads[0].dealt = true;
       }},
      {"dealt_on_pipelines", "cost_model.loads[1].dealt is set, but topology.pipeline_parallel",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.options.topology.pipeline_parallel = 2;
       }},
      {"loads_of_padded_rows", "cost_model.loads is set, but passes[0] has the padded layout",
       [](GeneratedRequest& request, RandomStream&) { Loaded(request).layout = Layout::kPadded; }},
      {"loads_and_dynamic", "cost_model.loads is set beside topology.dynamic_context",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.options.topology.dynamic_context.emplace();
       }},
      {"loads_of_nothing", "cost_model",
       [](GeneratedRequest& request, RandomStream&) {
         Loaded(request);
         request.options.cost_model = {0, 0, 0};
         request.options.cost_model.loads = {{.load = "memory", .per_unit = 0}};
       }},
  };
}

}  // namespace batchplan::testing
