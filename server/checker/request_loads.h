// The loads of a request: the checker's own reading of the manifest, of their costs and of their
// limits.

#ifndef BATCHPLAN_SERVER_CHECKER_REQUEST_LOADS_H_
#define BATCHPLAN_SERVER_CHECKER_REQUEST_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

struct LoadItem {
  // Its place among all items of the load in the manifest.
  size_t number = 0;
  uint32_t sequence = 0;
  double value = 0;
};

// One of manifest.loads, and what the cost model says of it.
struct RequestLoad {
  absl::string_view name;
  // By sequence.
  std::vector<double> values;
  // The items of present sequences, in the order of the manifest, which has `item_count` items.
  bool has_items = false;
  std::vector<LoadItem> items = {};
  size_t item_count = 0;
  // What a unit costs all ranks of a micro-batch together; 0 if the model does not name the load.
  double per_unit = 0;
  // Whether it is computed in a phase of its own, and whether its items are dealt to ranks.
  bool has_phase = false;
  bool dealt = false;
};

struct RequestLimit {
  // In RequestLoads::all().
  size_t load = 0;
  double most = 0;

  // Sums of doubles depend on their order.
  bool IsExceededBy(double value) const { return value > most * (1 + 1e-9); }
};

// A view of the manifest's names.
class RequestLoads {
 public:
  RequestLoads() = default;

  // Internal if the manifest's loads, items or kinds are invalid, or if `options` name missing
  // loads or can't be combined with them. Linear, except in the few loads.
  static absl::StatusOr<RequestLoads> Create(const Manifest& manifest, const PlanOptions& options);

  // From now on sequence k is the one at the k-th of these positions in the manifest, ascending.
  void Take(std::span<const uint32_t> positions);

  const std::vector<RequestLoad>& all() const { return all_; }
  // The numbers of dealt loads, in the order of the cost model.
  std::span<const size_t> dealt() const { return dealt_; }
  // Of a pass of the request.
  std::span<const RequestLimit> LimitsOf(size_t pass) const {
    return pass < limits_.size() ? std::span(limits_[pass]) : std::span<const RequestLimit>();
  }

  // Whether a sequence exceeds the limit by itself; for a dealt load, if its items are dealt alone.
  bool Exceeds(const RequestLimit& limit, uint32_t sequence) const;
  // Whether it exceeds a limit on a dealt load, of any pass.
  bool ExceedsDealt(uint32_t sequence) const;
  // Whether it exceeds any limit of the pass, or of any pass.
  bool ExceedsOne(size_t pass, uint32_t sequence) const;
  bool ExceedsOne(uint32_t sequence) const;

  // The cost of all loads of a sequence for one of the `ranks` ranks of its micro-batch, if these
  // share them evenly.
  double CostOf(uint32_t sequence, double ranks) const;

 private:
  absl::Status ReadLoads(const Manifest& manifest);
  absl::Status ReadItems(const Manifest& manifest);
  absl::Status ReadCosts(const PlanOptions& options);
  absl::Status ReadLimits(const PlanOptions& options);
  // The number of the load of that name; the number of loads if there is none.
  size_t NumberOf(absl::string_view name) const;
  // Finds by load the part of each sequence that one rank must have: for a dealt load what the rank
  // with most gets of its items, else all of it.
  void FindInseparable();

  std::vector<RequestLoad> all_;
  std::vector<size_t> dealt_;
  uint32_t data_parallel_ = 1;
  std::vector<std::vector<RequestLimit>> limits_;
  std::vector<std::vector<double>> inseparable_;
};

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_REQUEST_LOADS_H_
