// Random instances of the shapes by which bin packing is usually measured. The originals are in
// BPPLIB (M. Delorme, M. Iori, S. Martello, 2018); these are drawn in the same ways.

#ifndef BATCHPLAN_TESTS_SUPPORT_CLASSIC_INSTANCES_H_
#define BATCHPLAN_TESTS_SUPPORT_CLASSIC_INSTANCES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace batchplan::testing {

struct ClassicInstance {
  std::vector<uint32_t> lengths;
  uint32_t capacity = 0;
};

struct ClassicShape {
  std::string name;
  ClassicInstance (*make)(uint64_t seed);
};

// E. Falkenauer's uniform and triplet classes, A. Scholl's three sets, P. Schwerin's, and wide
// mixes like the set hard28. Also lengths in up to 60 sequences, as one rank's share has.
std::vector<ClassicShape> ClassicShapes();

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_CLASSIC_INSTANCES_H_
