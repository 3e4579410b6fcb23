// Loads with arrays of their own, which a manifest then views.

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
  // One a sequence, or, with items, one an item.
  std::vector<double> values;
  bool has_items = false;
  // Of each item.
  std::vector<uint32_t> sequences = {};
};

// Fills manifest.loads and items, which view `loads`.
void ViewLoads(const std::vector<OwnedLoad>& loads, Manifest* manifest);

// The loads of a manifest, copied.
std::vector<OwnedLoad> CopyLoads(const Manifest& manifest);

// What each sequence has of the load of that name, which there is.
std::vector<double> LoadOfSequences(const Manifest& manifest, absl::string_view name);

// The ranks of items dealt to `ranks` ranks, read literally: of those left always the largest, of
// equal ones the first, to the rank that has least, of equal ones the lowest.
std::vector<uint32_t> DealNaively(const std::vector<double>& items, uint32_t ranks);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_OWNED_LOADS_H_
