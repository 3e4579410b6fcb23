#include "server/planner/model_shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan {

absl::StatusOr<CostModel> CostModelOf(const ModelShape& shape) {
  const struct {
    absl::string_view name;
    uint32_t value;
  } needed[] = {{"layers", shape.layers},
                {"hidden_size", shape.hidden_size},
                {"attention_heads", shape.attention_heads}};
  for (const auto& [name, value] : needed) {
    if (value == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost_model.shape.", name, " is 0; it must be at least 1"));
    }
  }
  const uint32_t kv_heads = shape.kv_heads == 0 ? shape.attention_heads : shape.kv_heads;
  if (shape.attention_heads % kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cost_model.shape.kv_heads is ", kv_heads,
                                                   ", which does not divide attention_heads ",
                                                   shape.attention_heads));
  }
  constexpr double kUnit = 1e-9;
  const double layers = shape.layers;
  const double hidden = shape.hidden_size;
  const double kv_part = static_cast<double>(kv_heads) / shape.attention_heads;
  const double projections = 4 * hidden * hidden * (1 + kv_part);
  const double mlp = 6 * hidden * shape.ffn_hidden_size;
  const double logits = 2 * hidden * shape.vocabulary_size;
  return CostModel{.per_token = kUnit * (layers * (projections + mlp) + logits),
                   .per_token_squared = kUnit * layers * hidden * (shape.causal ? 2 : 4),
                   .per_microbatch = 0};
}

}  // namespace batchplan
