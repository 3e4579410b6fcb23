#include "client/cli/input/load_flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/count.h"

namespace batchplan::cli {
namespace {

// Reads "patches=0.5:dealt,answers=2": the cost of a unit of each load, and how it is computed.
void SetLoadCosts(const std::string& text, v1::CostModel* cost) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const std::vector<absl::string_view> value = absl::StrSplit(parts.second, ':');
    const bool is_known =
        value.size() == 1 || (value.size() == 2 && (value[1] == "separate" || value[1] == "dealt"));
    double per_unit = 0;
    if (!is_known || parts.first.empty() || !absl::SimpleAtod(value[0], &per_unit)) {
      throw CLI::ValidationError(
          "--load_cost",
          absl::StrCat("\"", item,
                       "\" is not a load and a number, as in patches=0.5, or with "
                       "how it is computed, as in patches=0.5:separate or patches=0.5:dealt"));
    }
    v1::LoadCost* entry = cost->add_loads();
    entry->set_load(std::string(parts.first));
    entry->set_per_unit(per_unit);
    entry->set_separate(value.back() == "separate");
    entry->set_dealt(value.back() == "dealt");
  }
}

// Reads "patches=8k,frames=100": the most of each load that a micro-batch may have.
void SetLimits(const std::string& text, v1::Pass* pass) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const std::optional<uint64_t> count = ParseCount(parts.second);
    double most = static_cast<double>(count.value_or(0));
    if (parts.first.empty() || (!count.has_value() && !absl::SimpleAtod(parts.second, &most))) {
      throw CLI::ValidationError(
          "--limit", absl::StrCat("\"", item, "\" is not a load and a number, as in patches=8192"));
    }
    v1::LoadLimit* limit = pass->add_limits();
    limit->set_load(std::string(parts.first));
    limit->set_max_per_microbatch(most);
  }
}

// Reads "patches:items,frames": the loads, and whether their columns list items.
void SetLoadColumns(const std::string& text, std::vector<LoadColumn>* loads) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    LoadColumn& load = loads->emplace_back();
    load.name = std::string(item);
    if (const size_t colon = item.find(':'); colon != absl::string_view::npos) {
      load.has_items = item.substr(colon + 1) == "items";
      load.name = load.has_items ? std::string(item.substr(0, colon)) : "";
    }
    if (!load.name.empty()) continue;
    throw CLI::ValidationError("--loads",
                               absl::StrCat("\"", item,
                                            "\" is not the name of a load, as in patches, or with "
                                            "a list of items in its column, as in patches:items"));
  }
}

}  // namespace

CLI::Option* AddLoadColumnsFlag(CLI::App* app, std::vector<LoadColumn>* loads) {
  return app
      ->add_option_function<std::string>(
          "--loads", [loads](const std::string& text) { SetLoadColumns(text, loads); },
          "The last columns of --lengths, behind all others, are what the sequence brings beside "
          "tokens, by these names: a number, or with :items a list of numbers with commas, - for "
          "none, such as the patches of each image")
      ->type_name("LOAD[:items],...");
}

CLI::Option* AddLimitFlag(CLI::App* app, v1::Pass* pass) {
  return app
      ->add_option_function<std::string>(
          "--limit", [pass](const std::string& text) { SetLimits(text, pass); },
          "What a micro-batch has at most of each of --loads [any amount]")
      ->type_name("LOAD=N,...");
}

CLI::Option* AddLoadCostFlag(CLI::App* app, v1::CostModel* costs) {
  return app
      ->add_option_function<std::string>(
          "--load_cost", [costs](const std::string& text) { SetLoadCosts(text, costs); },
          "What a unit of each of --loads costs on top of --cost; separate: in a phase of its own, "
          "before the rest; dealt: in one whose items are dealt to the ranks of a slot; with "
          "--fitted_cost 0, as costs are fitted [nothing]")
      ->type_name("LOAD=COST[:separate|:dealt],...");
}

}  // namespace batchplan::cli
