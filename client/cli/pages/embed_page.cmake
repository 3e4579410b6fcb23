# Makes one page of a template and the files it names, and C++ source that holds it.
#
#   cmake -DPAGE=<page.html> -DFUNCTION=<PlanPage> -DHEADER=<pages.h> -DOUTPUT=<page.cc>
#         -P embed_page.cmake
#
# Style sheets and scripts that the page takes from beside it are put in their places: the result
# needs no other file.
cmake_path(GET PAGE PARENT_PATH folder)
file(READ "${PAGE}" page)

function(inline pattern tag)
  string(REGEX MATCHALL "${pattern}" references "${page}")
  foreach(reference IN LISTS references)
    string(REGEX REPLACE "${pattern}" "\\1" name "${reference}")
    file(READ "${folder}/${name}" content)
    string(REPLACE "${reference}" "<${tag}>\n${content}</${tag}>" page "${page}")
  endforeach()
  set(page "${page}" PARENT_SCOPE)
endfunction()

inline("<link rel=\"stylesheet\" href=\"([a-z_]+[.]css)\">" style)
inline("<script src=\"([a-z_]+[.]js)\"></script>" script)

file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace batchplan::cli {

absl::string_view ${FUNCTION}() {
  return R\"PAGE(${page})PAGE\";
}

}  // namespace batchplan::cli
")
