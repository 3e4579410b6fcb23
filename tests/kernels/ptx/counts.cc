#include "ptx/counts.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

namespace batchplan::ptx {
namespace {

constexpr uint64_t kSectorBytes = 32;
constexpr uint64_t kBanks = 32;
constexpr uint64_t kBankBytes = 4;

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  warp_instructions += other.warp_instructions;
  load_sectors += other.load_sectors;
  store_sectors += other.store_sectors;
  shared_wavefronts += other.shared_wavefronts;
  return *this;
}

void LaunchCounter::AddWarp(const std::vector<const ThreadCounter*>& lanes) {
  for (size_t at = 0; at < counts_.size(); ++at) {
    uint32_t issues = 0;
    for (const ThreadCounter* lane : lanes) issues = std::max(issues, lane->executed_[at]);
    counts_[at].warp_issues += issues;
  }

  using Access = ThreadCounter::Access;
  std::vector<Access> accesses;
  for (const ThreadCounter* lane : lanes) {
    accesses.insert(accesses.end(), lane->accesses_.begin(), lane->accesses_.end());
  }
  std::ranges::sort(accesses, [](const Access& a, const Access& b) {
    return std::tie(a.at, a.occurrence, a.address) < std::tie(b.at, b.occurrence, b.address);
  });
  for (size_t begin = 0; begin < accesses.size();) {
    const uint32_t at = accesses[begin].at;
    const Instruction& instruction = kernel_.code[at];
    const bool is_shared = instruction.space == Space::kShared;
    // What one instruction touches; a bank serves one of its words at a time.
    std::set<uint64_t> units;
    const uint64_t unit = is_shared ? kBankBytes : kSectorBytes;
    size_t end = begin;
    for (; end < accesses.size() && accesses[end].at == at &&
           accesses[end].occurrence == accesses[begin].occurrence;
         ++end) {
      const uint64_t first = accesses[end].address / unit;
      const uint64_t last = (accesses[end].address + instruction.bytes() - 1) / unit;
      for (uint64_t i = first; i <= last; ++i) units.insert(i);
    }
    if (is_shared) {
      std::array<uint64_t, kBanks> words{};
      for (const uint64_t word : units) ++words[word % kBanks];
      counts_[at].shared_wavefronts += *std::ranges::max_element(words);
    } else if (instruction.opcode == Opcode::kLoad) {
      counts_[at].load_sectors += units.size();
    } else {
      counts_[at].store_sectors += units.size();
    }
    begin = end;
  }
}

Counts LaunchCounter::Total(double blocks_of_grid_per_block) const {
  Counts total;
  for (const InstructionCounts& counts : counts_) {
    total.warp_instructions += static_cast<double>(counts.warp_issues);
    total.load_sectors += static_cast<double>(counts.load_sectors);
    total.store_sectors += static_cast<double>(counts.store_sectors);
    total.shared_wavefronts += static_cast<double>(counts.shared_wavefronts);
  }
  total.warp_instructions *= blocks_of_grid_per_block;
  total.load_sectors *= blocks_of_grid_per_block;
  total.store_sectors *= blocks_of_grid_per_block;
  total.shared_wavefronts *= blocks_of_grid_per_block;
  return total;
}

}  // namespace batchplan::ptx
