#include "ptx/names.h"

#include <cctype>
#include <cstdlib>

namespace batchplan::ptx {
namespace {

// The special registers of one-dimensional blocks and grids.
const std::map<std::string, int>& SpecialRegisters() {
  static const auto* const registers = new std::map<std::string, int>{
      {"%tid.x", kThreadIndex},
      {"%ntid.x", kThreads},
      {"%ctaid.x", kBlockIndex},
      {"%nctaid.x", kBlocks},
      {"%laneid", kLane},
      {"%warpid", kWarp},
      {"%lanemask_eq", kLaneMaskEq},
      {"%lanemask_lt", kLaneMaskLt},
      {"%lanemask_le", kLaneMaskLe},
      {"%lanemask_gt", kLaneMaskGt},
      {"%lanemask_ge", kLaneMaskGe},
      {"_", kDiscarded},
  };
  return *registers;
}
const std::map<std::string, uint64_t>& FixedValues() {
  static const auto* const values = new std::map<std::string, uint64_t>{
      {"%tid.y", 0},   {"%tid.z", 0},    {"%ntid.y", 1},   {"%ntid.z", 1}, {"%ctaid.y", 0},
      {"%ctaid.z", 0}, {"%nctaid.y", 1}, {"%nctaid.z", 1}, {"WARP_SZ", 32}};
  return *values;
}

bool IsNumber(const std::string& text) {
  return std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-';
}

// Floats are written as their bits: 0f3F800000, 0d3FF0000000000000.
uint64_t NumberOf(const std::string& text) {
  if (text.size() > 2 && text[0] == '0' && std::string("fFdD").find(text[1]) != std::string::npos) {
    return std::strtoull(text.c_str() + 2, nullptr, 16);
  }
  if (text[0] == '-') return static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 0));
  return std::strtoull(text.c_str(), nullptr, 0);
}

// The size of a type such as ".b8", ".u32" or ".f64".
size_t BytesOfType(const std::string& type) {
  size_t digits = type.find_first_of("0123456789");
  if (digits == std::string::npos) return 0;
  return static_cast<size_t>(std::atoi(type.c_str() + digits)) / 8;
}

}  // namespace

void Names::DeclareRegisters(const Statement& statement) {
  const size_t type_end = statement.text.find(' ', std::string(".reg ").size());
  if (type_end == std::string::npos) throw ParseError(statement.line, statement.text);
  for (const std::string& name : SplitOperands(statement.text.substr(type_end))) {
    const size_t range = name.find('<');
    if (range == std::string::npos) {
      scopes_.back()[name] = static_cast<int>(kernel_.num_slots++);
      continue;
    }
    const int count = std::atoi(name.c_str() + range + 1);
    for (int i = 0; i < count; ++i) {
      scopes_.back()[name.substr(0, range) + std::to_string(i)] =
          static_cast<int>(kernel_.num_slots++);
    }
  }
}

Parameter Names::DeclareVariable(const Statement& statement, size_t& bytes, uint64_t first) {
  const std::vector<std::string> words = SplitWords(statement.text);
  size_t align = 0;
  size_t element = 0;
  // The last word is the name; words before with digits are sizes.
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    // The rest says what a pointer points to.
    if (words[i] == ".ptr") break;
    if (words[i] == ".align") {
      align = static_cast<size_t>(std::atoi(words[i + 1].c_str()));
    } else if (const size_t size = BytesOfType(words[i]); words[i][0] == '.' && size > 0) {
      element = size;
    }
  }
  std::string name = words.back();
  size_t count = 1;
  if (const size_t bracket = name.find('['); bracket != std::string::npos) {
    count = static_cast<size_t>(std::atoi(name.c_str() + bracket + 1));
    name.resize(bracket);
  }
  if (element == 0 || count == 0) throw ParseError(statement.line, statement.text);
  if (align == 0) align = element;
  const size_t offset = (bytes + align - 1) / align * align;
  variables_[name] = first + offset;
  bytes = offset + element * count;
  return {offset, element * count};
}

int Names::ConstantSlot(uint64_t value) {
  const auto [found, is_new] = constants_.try_emplace(value, static_cast<int>(kernel_.num_slots));
  if (is_new) {
    ++kernel_.num_slots;
    kernel_.constants.emplace_back(found->second, value);
  }
  return found->second;
}

int Names::SlotOf(const std::string& operand, uint32_t line) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->find(operand); found != scope->end()) return found->second;
  }
  if (const auto found = SpecialRegisters().find(operand); found != SpecialRegisters().end()) {
    return found->second;
  }
  if (const auto found = FixedValues().find(operand); found != FixedValues().end()) {
    return ConstantSlot(found->second);
  }
  if (const auto found = variables_.find(operand); found != variables_.end()) {
    return ConstantSlot(found->second);
  }
  if (!operand.empty() && IsNumber(operand)) return ConstantSlot(NumberOf(operand));
  throw ParseError(line, "unknown operand " + operand);
}

}  // namespace batchplan::ptx
