#include "server/planner/balance/exchange_search.h"

#include <utility>

#include "server/planner/packing/even_counts.h"

namespace batchplan {
namespace {

class CountRules {
 public:
  CountRules(const RefineRules& rules, std::span<const uint32_t> part_of, uint32_t parts)
      : rules_(rules), loads_(parts, 0) {
    for (uint32_t part : part_of) ++loads_[part];
    if (!rules.equal_counts) return;
    std::vector<uint64_t> sequences(parts, 0);
    for (uint32_t load = 0; load < part_of.size(); ++load) {
      sequences[part_of[load]] += static_cast<uint64_t>(SequencesOf(load));
    }
    sequences_ = KeptCounts(std::move(sequences));
  }

  bool MayMove() const {
    return !rules_.equal_counts || !rules_.counts.empty() || sequences_.may_change();
  }

  bool Allow(uint32_t heavy, uint32_t light, std::span<const Exchange> move) const {
    const Change change = ChangeOf(move);
    if (rules_.equal_counts && !sequences_.Allow(heavy, light, change.sequences)) return false;
    return Enough(loads_[heavy] - change.loads, change.loads) &&
           Enough(loads_[light] + change.loads, -change.loads);
  }

  void Apply(uint32_t heavy, uint32_t light, std::span<const Exchange> move) {
    const Change change = ChangeOf(move);
    loads_[heavy] -= change.loads;
    loads_[light] += change.loads;
    sequences_.Give(heavy, light, change.sequences);
  }

 private:
  // What a move brings from the heavy part to the light one.
  struct Change {
    int64_t sequences = 0;
    int64_t loads = 0;
  };

  Change ChangeOf(std::span<const Exchange> move) const {
    Change change;
    for (const Exchange& exchange : move) {
      change.sequences += SequencesOf(exchange.out) - SequencesOf(exchange.in);
      change.loads += (exchange.out != Exchange::kNothing) - (exchange.in != Exchange::kNothing);
    }
    return change;
  }

  int64_t SequencesOf(uint32_t load) const {
    if (load == Exchange::kNothing) return 0;
    return rules_.counts.empty() ? 1 : rules_.counts[load];
  }

  // Only a part that gives loads away can end up with too few.
  bool Enough(int64_t loads, int64_t given) const {
    return given <= 0 || loads >= int64_t{rules_.least_each};
  }

  const RefineRules& rules_;
  std::vector<int64_t> loads_;  // of each part
  KeptCounts sequences_;
};

}  // namespace

std::vector<uint32_t> RefineParts(std::span<const uint64_t> loads, std::vector<uint32_t> part_of,
                                  uint32_t parts, const RefineRules& rules, uint64_t goal,
                                  uint64_t steps, const Allowance& allowance) {
  if (parts <= 1 || loads.empty()) return part_of;
  CountRules count_rules(rules, part_of, parts);
  ExchangeSearch(loads, parts, part_of, count_rules).Run(goal, steps, allowance);
  return part_of;
}

}  // namespace batchplan
