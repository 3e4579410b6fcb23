# Makes one page of a template and the files it names, and C++ source that holds it.
#
#   cmake -DPAGE=<page.html> -DPARTS=<path>,... -DFUNCTION=<batchplan::Page> -DHEADER=<pages.h>
#         -DOUTPUT=<page.cc> -P embed_page.cmake
#
# Pieces of markup, style sheets and scripts that the page takes are put in their places: the result
# needs no other file. Markup may take markup that stands behind it in PARTS.
file(READ "${PAGE}" page)
string(REPLACE "," ";" PARTS "${PARTS}")

foreach(part IN LISTS PARTS)
  cmake_path(GET part FILENAME name)
  cmake_path(GET part EXTENSION type)
  file(READ "${part}" content)
  if(type STREQUAL ".html")
    set(reference "<!-- PART ${name} -->\n")
  elseif(type STREQUAL ".css")
    set(reference "<link rel=\"stylesheet\" href=\"${name}\">")
    set(content "<style>\n${content}</style>")
  else()
    set(reference "<script src=\"${name}\"></script>")
    set(content "<script>\n${content}</script>")
  endif()
  string(FIND "${page}" "${reference}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${PAGE} does not take ${name}")
  endif()
  string(REPLACE "${reference}" "${content}" page "${page}")
endforeach()
foreach(left "<!-- PART" "<link rel=\"stylesheet\"" "<script src=")
  string(FIND "${page}" "${left}" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${PAGE} takes a file that is not among its parts: '${left}' is left")
  endif()
endforeach()

# Compilers need not take string literals of more than 65,536 characters.
set(literals)
while(NOT "${page}" STREQUAL "")
  string(SUBSTRING "${page}" 0 60000 literal)
  if(literal STREQUAL page)
    set(page "")
  else()
    string(FIND "${literal}" "\n" end REVERSE)
    string(SUBSTRING "${page}" 0 ${end} literal)
    string(SUBSTRING "${page}" ${end} -1 page)
  endif()
  string(APPEND literals "\n    R\"PAGE(${literal})PAGE\",")
endwhile()

file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

#include <string>

#include \"absl/strings/str_cat.h\"

absl::string_view ${FUNCTION}() {
  static const std::string* const page = new std::string(absl::StrCat(${literals}
    \"\"));
  return *page;
}
")
