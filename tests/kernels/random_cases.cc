#include "random_cases.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace batchplan::kernels {
namespace {

template <typename T>
T Environment(const char* name, T otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view view = text;
  T value = otherwise;
  std::from_chars(view.data(), view.data() + view.size(), value);
  return value;
}

}  // namespace

uint64_t Cases(uint64_t count) {
  const double scaled = static_cast<double>(count) * Environment("BATCHPLAN_TEST_SCALE", 1.0);
  return std::max<uint64_t>(1, static_cast<uint64_t>(scaled));
}

uint32_t Seed(uint32_t seed) {
  return seed + 1'000'003 * Environment<uint32_t>("BATCHPLAN_TEST_SEED", 0);
}

}  // namespace batchplan::kernels
