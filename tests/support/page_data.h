// What a browser finds in a page.

#ifndef BATCHPLAN_TESTS_SUPPORT_PAGE_DATA_H_
#define BATCHPLAN_TESTS_SUPPORT_PAGE_DATA_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan {

// The JSON in the element `id`; "" if there is not exactly one.
inline std::string EmbeddedJson(const std::string& page, absl::string_view id) {
  const std::vector<std::string> parts =
      absl::StrSplit(page, absl::StrCat("<script type=\"application/json\" id=\"", id, "\">"));
  EXPECT_EQ(parts.size(), 2U) << id;
  return parts.size() == 2 ? parts[1].substr(0, parts[1].find("</script>")) : "";
}

template <typename Message>
Message Embedded(const std::string& page, absl::string_view id) {
  Message message;
  const std::string json = EmbeddedJson(page, id);
  EXPECT_TRUE(FromJson(json, &message).ok()) << json;
  return message;
}

inline void ExpectStandsAlone(const std::string& page) {
  using ::testing::EndsWith;
  using ::testing::HasSubstr;
  using ::testing::Not;
  using ::testing::StartsWith;
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, EndsWith("</html>\n"));
  for (const char* loader : {"http://", "https://", " src=", " href=", "<link", "url(", "@import",
                             "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(loader)));
  }
  // A browser would not let the page load anything either.
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SUPPORT_PAGE_DATA_H_
