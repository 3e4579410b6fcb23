// Exact bin packing for small instances.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_BIN_COMPLETION_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_BIN_COMPLETION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>

#include "server/planner/fewest_bins/kinds.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

struct Completion {
  std::optional<Bins> bins;
  // Whether it is certain that there is no packing, where none was found.
  bool exhausted = false;
};

// A packing of `demand` into at most `bins` bins, if there is one. Bin by bin: each takes the
// longest item left and every set of others that leaves no room for an item left over and no more
// slack than the bins can afford in all, depth first (R. E. Korf, "A new algorithm for optimal bin
// packing", AAAI 2002). Exact within `steps`, which are taken off, and until `stop` is requested;
// without recursion.
Completion CompleteBins(const Kinds& kinds, std::span<const uint32_t> demand, size_t bins,
                        uint64_t& steps, const std::stop_token& stop = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_BIN_COMPLETION_H_
