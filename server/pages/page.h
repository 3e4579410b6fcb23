// HTML pages that stand alone: style, script and data in one file, nothing loaded from anywhere.
//
// A page is a template of pages/ with one marked place. What differs between two pages of a kind is
// JSON, which goes there; the page's own script reads it and draws.

#ifndef BATCHPLAN_SERVER_PAGES_PAGE_H_
#define BATCHPLAN_SERVER_PAGES_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace batchplan {

// A JSON value, and the element id under which the page's script looks for it.
struct PageData {
  std::string id;
  std::string json;
};

// `page` with `data` in its marked place. Whatever strings the JSON holds, they stay data: no text
// in them ends the element that they stand in, or begins another.
std::string FillPage(absl::string_view page, const std::vector<PageData>& data);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PAGES_PAGE_H_
