#include "server/rendezvous/terms.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/fnv_hash.h"

namespace batchplan {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Shortened(std::string text) {
  constexpr size_t kLongest = 80;
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

// The value as text; `index` is -1 unless the field is repeated.
std::string Value(const Message& message, const FieldDescriptor* field, int index) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
  return Shortened(std::move(text));
}

// Whether the field can be there or not, apart from its value.
bool IsPresent(const Message& message, const FieldDescriptor* field) {
  return !field->has_presence() || message.GetReflection()->HasField(message, field);
}

std::optional<TermsDifference> Compare(const Message& first, const Message& second,
                                       const std::string& path);

std::optional<TermsDifference> CompareRepeated(const Message& first, const Message& second,
                                               const FieldDescriptor* field,
                                               const std::string& path) {
  const Reflection* reflection = first.GetReflection();
  const int first_size = reflection->FieldSize(first, field);
  const int second_size = reflection->FieldSize(second, field);
  for (int i = 0; i < std::min(first_size, second_size); ++i) {
    const std::string entry = absl::StrCat(path, "[", i, "]");
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      auto difference = Compare(reflection->GetRepeatedMessage(first, field, i),
                                reflection->GetRepeatedMessage(second, field, i), entry);
      if (difference) return difference;
      continue;
    }
    const std::string values[] = {Value(first, field, i), Value(second, field, i)};
    if (values[0] != values[1]) return TermsDifference{entry, values[0], values[1]};
  }
  if (first_size == second_size) return std::nullopt;
  return TermsDifference{path, absl::StrCat(first_size, " entries"),
                         absl::StrCat(second_size, " entries")};
}

std::optional<TermsDifference> CompareSingle(const Message& first, const Message& second,
                                             const FieldDescriptor* field,
                                             const std::string& path) {
  const Reflection* reflection = first.GetReflection();
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (is_message) {
    // One that is not there reads as its defaults.
    auto difference =
        Compare(reflection->GetMessage(first, field), reflection->GetMessage(second, field), path);
    if (difference) return difference;
  }
  const bool present[] = {IsPresent(first, field), IsPresent(second, field)};
  if (is_message && present[0] == present[1]) return std::nullopt;
  const auto text = [&](const Message& message, bool is_present) -> std::string {
    if (!is_present) return "unset";
    return is_message ? "set" : Value(message, field, -1);
  };
  TermsDifference difference = {path, text(first, present[0]), text(second, present[1])};
  if (difference.first == difference.second) return std::nullopt;
  return difference;
}

std::optional<TermsDifference> Compare(const Message& first, const Message& second,
                                       const std::string& path) {
  const auto* descriptor = first.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    const std::string inner =
        path.empty() ? std::string(field->name()) : absl::StrCat(path, ".", field->name());
    auto difference = field->is_repeated() ? CompareRepeated(first, second, field, inner)
                                           : CompareSingle(first, second, field, inner);
    if (difference) return difference;
  }
  return std::nullopt;
}

}  // namespace

std::string SerializeTerms(v1::JoinBatchRequest request) {
  request.clear_worker();
  request.clear_data_parallel_rank();
  request.clear_own_slice_only();
  request.clear_own_part_only();
  request.clear_return_request();
  request.clear_timeout();
  request.clear_run_id();
  v1::PlanBatchRequest& plan = *request.mutable_request();
  plan.clear_job_id();
  plan.clear_step();
  plan.clear_request_id();
  // There even where a worker without sequences left it out.
  v1::Manifest& manifest = *plan.mutable_manifest();
  manifest.clear_lengths();
  manifest.clear_group_ids();
  manifest.clear_ranks();
  manifest.clear_ages();
  manifest.clear_shared_prefixes();
  manifest.clear_shared_with();
  manifest.clear_loads();
  manifest.clear_items();
  manifest.clear_kinds();
  // The contract has no maps: fields are written in their order.
  return request.SerializeAsString();
}

uint64_t TermsDigest(const std::string& terms) {
  FnvHash hash;
  hash.Add(terms);
  return hash.value();
}

TermsDifference FirstDifference(const std::string& first, const std::string& second) {
  constexpr const char* kUnknown = "options that this version does not know";
  v1::JoinBatchRequest messages[2];
  if (messages[0].ParseFromString(first) && messages[1].ParseFromString(second)) {
    auto difference = Compare(messages[0], messages[1], "");
    if (difference) return *std::move(difference);
  }
  return {.field = "request", .first = kUnknown, .second = kUnknown};
}

}  // namespace batchplan
