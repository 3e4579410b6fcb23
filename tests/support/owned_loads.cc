#include "tests/support/owned_loads.h"

#include <algorithm>
#include <cstddef>

namespace batchplan::testing {

void ViewLoads(const std::vector<OwnedLoad>& loads, Manifest* manifest) {
  for (const OwnedLoad& load : loads) {
    manifest->loads.push_back({.name = load.name});
    if (load.has_items) {
      manifest->items.push_back(
          {.load = load.name, .sequences = load.sequences, .values = load.values});
    } else {
      manifest->loads.back().values = load.values;
    }
  }
}

std::vector<OwnedLoad> CopyLoads(const Manifest& manifest) {
  std::vector<OwnedLoad> loads;
  loads.reserve(manifest.loads.size());
  for (const Load& load : manifest.loads) {
    OwnedLoad& copy = loads.emplace_back();
    copy = {.name = std::string(load.name), .values = {load.values.begin(), load.values.end()}};
    const auto items = std::ranges::find(manifest.items, load.name, &LoadItems::load);
    if (items == manifest.items.end()) continue;
    copy.has_items = true;
    copy.values.assign(items->values.begin(), items->values.end());
    copy.sequences.assign(items->sequences.begin(), items->sequences.end());
  }
  return loads;
}

std::vector<double> LoadOfSequences(const Manifest& manifest, absl::string_view name) {
  const auto load = std::ranges::find(manifest.loads, name, &Load::name);
  const auto items = std::ranges::find(manifest.items, name, &LoadItems::load);
  if (items == manifest.items.end()) return {load->values.begin(), load->values.end()};
  std::vector<double> values(manifest.lengths.size(), 0);
  for (size_t i = 0; i < items->values.size(); ++i) {
    values[items->sequences[i]] += items->values[i];
  }
  return values;
}

std::vector<uint32_t> DealNaively(const std::vector<double>& items, uint32_t ranks) {
  std::vector<uint32_t> rank_of(items.size(), ranks);
  std::vector<double> sums(ranks, 0);
  for (size_t dealt = 0; dealt < items.size(); ++dealt) {
    size_t next = items.size();
    for (size_t i = 0; i < items.size(); ++i) {
      if (rank_of[i] == ranks && (next == items.size() || items[i] > items[next])) next = i;
    }
    const auto least = std::ranges::min_element(sums);
    rank_of[next] = static_cast<uint32_t>(least - sums.begin());
    *least += items[next];
  }
  return rank_of;
}

}  // namespace batchplan::testing
