// The names within a kernel (registers, variables, numbers) and the slots that hold them.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_NAMES_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptx/module.h"
#include "ptx/statements.h"

namespace batchplan::ptx {

class Names {
 public:
  // Adds slots and constants to `kernel`.
  explicit Names(Kernel& kernel) : kernel_(kernel) { kernel_.num_slots = kNumSpecialSlots; }

  // Inline assembly declares its registers in braces.
  void OpenScope() { scopes_.emplace_back(); }
  void CloseScope() { scopes_.pop_back(); }

  // Reads `.reg .b32 %r<144>`.
  void DeclareRegisters(const Statement& statement);
  // Reads `.shared .align 8 .b8 name[2048]`, also .local and .param. Puts the variable at the end
  // of `bytes`, whose addresses begin at `first`.
  Parameter DeclareVariable(const Statement& statement, size_t& bytes, uint64_t first);

  // The slot of an operand that is neither an address nor a vector.
  int SlotOf(const std::string& operand, uint32_t line);

 private:
  int ConstantSlot(uint64_t value);

  Kernel& kernel_;
  std::vector<std::map<std::string, int>> scopes_{1};
  // The addresses of variables, each in its own space.
  std::map<std::string, uint64_t> variables_;
  std::map<uint64_t, int> constants_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_NAMES_H_
