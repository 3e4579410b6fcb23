// Loads that own their arrays, which a manifest then views.

#ifndef BATCHPLAN_TESTS_SUPPORT_OWNED_LOADS_H_
#define BATCHPLAN_TESTS_SUPPORT_OWNED_LOADS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"

namespace batchplan::testing {

struct OwnedLoad {
  std::string name;
  // One for each sequence, or for each item if there are items.
  std::vector<double> values;
  bool has_items = false;
  // The sequence of each item.
  std::vector<uint32_t> sequences = {};
};

// Fills manifest.loads and items, which view `loads`.
void ViewLoads(const std::vector<OwnedLoad>& loads, Manifest* manifest);

// The loads of a manifest, copied.
std::vector<OwnedLoad> CopyLoads(const Manifest& manifest);

// The amount of load `name`, which must exist, that each sequence has.
std::vector<double> LoadOfSequences(const Manifest& manifest, absl::string_view name);

// The ranks of items dealt to `ranks` ranks, by definition: always the largest item left (of
// equals, the first) to the rank with least (of equals, the lowest).
std::vector<uint32_t> DealNaively(const std::vector<double>& items, uint32_t ranks);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_OWNED_LOADS_H_
