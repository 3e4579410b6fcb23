// Checks that deploy/metrics.md is the catalog's table.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "server/telemetry/metric_catalog.h"

namespace batchplan {
namespace {

// The table is between the page's own words and its end.
TEST(MetricTableTest, ThePageIsUpToDate) {
  std::ifstream file(BATCHPLAN_METRICS_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const size_t table = page.find("| metric |");
  ASSERT_NE(table, std::string::npos) << BATCHPLAN_METRICS_PAGE;
  const std::string wanted = page.substr(0, table) + MetricTable();
  if (std::getenv("BATCHPLAN_WRITE_PAGES") != nullptr) {
    std::ofstream(BATCHPLAN_METRICS_PAGE) << wanted;
  }
  EXPECT_EQ(page, wanted) << "written anew with BATCHPLAN_WRITE_PAGES=1";
}

}  // namespace
}  // namespace batchplan
