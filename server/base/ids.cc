#include "server/base/ids.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "server/base/utf8.h"

namespace batchplan {
namespace {

struct CodePoints {
  uint32_t first;
  uint32_t last;
};

// Categories Cc, Cf, Zl and Zp of Unicode 15.1 in order, including unassigned code points between
// format characters, and all tags.
constexpr CodePoints kUnseen[] = {
    {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x0600, 0x0605},
    {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},
    {0x08e2, 0x08e2},   {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe007f},
};

bool IsUnseen(uint32_t character) {
  const auto* found =
      std::lower_bound(std::begin(kUnseen), std::end(kUnseen), character,
                       [](const CodePoints& range, uint32_t point) { return range.last < point; });
  return found != std::end(kUnseen) && found->first <= character;
}

// The code point of `bytes`, one character in UTF-8.
uint32_t CodePoint(std::string_view bytes) {
  // The bits of the first byte that belong to the code point, by the number of bytes.
  constexpr std::array<uint32_t, 5> kFirstBits = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t character = static_cast<uint8_t>(bytes[0]) & kFirstBits[bytes.size()];
  for (const char byte : bytes.substr(1)) {
    character = character << 6 | (static_cast<uint8_t>(byte) & 0x3f);
  }
  return character;
}

absl::Status Refusal(std::string_view field, std::string_view id, const std::string& what,
                     size_t place) {
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(field), " \"", absl::CEscape({id.data(), id.size()}), "\" has ", what,
      " at byte ", place, ", must be UTF-8 without control, format and separator characters"));
}

}  // namespace

absl::Status CheckIdBytes(std::string_view field, size_t bytes) {
  if (bytes <= kMaxIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), " has ", bytes, " bytes, must have at most ", kMaxIdBytes));
}

absl::Status CheckId(std::string_view field, std::string_view id) {
  if (absl::Status length = CheckIdBytes(field, id.size()); !length.ok()) return length;
  for (size_t place = 0; place < id.size();) {
    const size_t bytes = Utf8CharacterBytes(id.substr(place));
    if (bytes == 0) return Refusal(field, id, "no character", place);
    const uint32_t character = CodePoint(id.substr(place, bytes));
    if (IsUnseen(character)) {
      return Refusal(field, id, absl::StrFormat("U+%04X", character), place);
    }
    place += bytes;
  }
  return absl::OkStatus();
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t bytes = Utf8CharacterBytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(bytes, 1));
    text.remove_prefix(character.size());
    const uint32_t point = bytes == 0 ? static_cast<uint8_t>(character[0]) : CodePoint(character);
    if (bytes > 0 && (point == '\n' || !IsUnseen(point))) {
      printable.append(character);
    } else if (bytes < 2) {
      absl::StrAppendFormat(&printable, "\\x%02x", point);
    } else if (bytes < 4) {
      absl::StrAppendFormat(&printable, "\\u%04x", point);
    } else {
      absl::StrAppendFormat(&printable, "\\U%08x", point);
    }
  }
  return printable;
}

}  // namespace batchplan
