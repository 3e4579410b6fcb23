// Parses what `batchplan compare` and `batchplan sweep` print.

#ifndef BATCHPLAN_TESTS_CLIENT_CLI_PRINTED_ROWS_H_
#define BATCHPLAN_TESTS_CLIENT_CLI_PRINTED_ROWS_H_

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/client/cli/run_cli.h"

namespace batchplan {

using Row = google::protobuf::Map<std::string, google::protobuf::Value>;

// 60 lengths from 1 to 400.
inline std::string SixtyLengths() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += std::to_string(1 + i * 7919 % 400) + "\n";
  return text;
}

// The rows of the JSON output.
inline std::vector<Row> ParseRows(const CliResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  google::protobuf::ListValue list;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &list).ok()) << result.out;
  std::vector<Row> rows;
  for (const auto& value : list.values()) rows.push_back(value.struct_value().fields());
  return rows;
}

// The rows that are marked best; there should be one.
inline std::vector<Row> BestOf(const std::vector<Row>& rows) {
  std::vector<Row> best;
  for (const Row& row : rows) {
    if (row.at("best").bool_value()) best.push_back(row);
  }
  return best;
}

// The least value of `field` among the rows that have it.
inline double Least(const std::vector<Row>& rows, const std::string& field) {
  double least = 1e300;
  for (const Row& row : rows) {
    if (row.count(field) > 0) least = std::min(least, row.at(field).number_value());
  }
  return least;
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CLI_PRINTED_ROWS_H_
