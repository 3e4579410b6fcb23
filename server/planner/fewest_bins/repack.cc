#include "server/planner/fewest_bins/repack.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/fewest_bins/column_generation.h"

namespace batchplan {
namespace {

constexpr size_t kMaxFailures = 8;
// To choose the bins of a round.
constexpr uint64_t kStepsPerBin = 100;

// What a bin's items are worth.
uint64_t WorthOf(std::span<const uint32_t> bin, const Kinds& kinds, const DualFeasible& worth) {
  return std::accumulate(bin.begin(), bin.end(), uint64_t{0}, [&](uint64_t sum, uint32_t kind) {
    return sum + worth(kinds.lengths[kind]);
  });
}

// Bins in the order in which they are to be taken: of each two one drawn, if `shuffled`, and the
// other by least worth.
std::vector<uint32_t> Worst(const Bins& bins, const Kinds& kinds, const DualFeasible& worth,
                            bool shuffled, std::mt19937_64& random) {
  std::vector<std::pair<uint64_t, uint32_t>> keys;
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    keys.emplace_back(WorthOf(bins[bin], kinds, worth), bin);
  }
  std::sort(keys.begin(), keys.end());
  if (shuffled) {
    for (size_t i = 1; i < keys.size(); i += 2) {
      std::swap(keys[i], keys[i + random() % (keys.size() - i)]);
    }
  }
  std::vector<uint32_t> order;
  order.reserve(keys.size());
  for (const auto& [key, bin] : keys) order.push_back(bin);
  return order;
}

// The kinds in some bins; `original` tells which they are in all.
struct Part {
  Kinds kinds;
  std::vector<uint32_t> original;
};

Part PartOf(const Kinds& kinds, std::vector<uint32_t> items) {
  std::sort(items.begin(), items.end());
  Part part{.kinds = {.lengths = {}, .demand = {}, .capacity = kinds.capacity}, .original = {}};
  for (uint32_t kind : items) {
    if (part.original.empty() || part.original.back() != kind) {
      part.original.push_back(kind);
      part.kinds.lengths.push_back(kinds.lengths[kind]);
      part.kinds.demand.push_back(0);
    }
    ++part.kinds.demand.back();
  }
  return part;
}

}  // namespace

Bins RepackSome(const Kinds& kinds, const DualFeasible& worth, Bins bins, size_t enough,
                size_t items, std::mt19937_64& random, uint64_t& steps,
                const std::stop_token& stop) {
  for (size_t round = 0, failures = 0;
       bins.size() > enough && failures < kMaxFailures && steps > 0 && !stop.stop_requested();
       ++round) {
    steps -= std::min<uint64_t>(steps, kStepsPerBin * bins.size());
    std::vector<uint8_t> is_taken(bins.size(), 0);
    std::vector<uint32_t> taken;
    size_t taken_bins = 0;
    for (uint32_t bin : Worst(bins, kinds, worth, round > 0, random)) {
      if (taken.size() + bins[bin].size() > items) break;
      taken.insert(taken.end(), bins[bin].begin(), bins[bin].end());
      is_taken[bin] = 1;
      ++taken_bins;
    }
    const Part part = PartOf(kinds, std::move(taken));
    const size_t kept = bins.size() - taken_bins;
    const size_t wanted = enough - std::min(kept, enough);
    const std::optional<Bins> better =
        GenerateColumns(part.kinds, wanted, taken_bins, steps, stop).bins;
    if (!better) {
      ++failures;
      continue;
    }
    failures = 0;
    Bins next;
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      if (!is_taken[bin]) next.Add(bins[bin]);
    }
    std::vector<uint32_t> original;
    for (size_t bin = 0; bin < better->size(); ++bin) {
      original.clear();
      for (uint32_t kind : (*better)[bin]) original.push_back(part.original[kind]);
      next.Add(original);
    }
    bins = std::move(next);
  }
  return bins;
}

}  // namespace batchplan
