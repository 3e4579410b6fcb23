#include "server/checker/pass_under_check.h"

#include "absl/strings/str_cat.h"

namespace batchplan::checker {

std::string Field(const PassUnderCheck& pass, absl::string_view name) {
  return absl::StrCat("passes[", pass.number, "].", name);
}

std::string Field(const PassUnderCheck& pass, absl::string_view name, size_t index) {
  return absl::StrCat(Field(pass, name), "[", index, "]");
}

}  // namespace batchplan::checker
