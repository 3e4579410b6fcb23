"""Markdown as GitHub reads it, brought to what Python-Markdown reads alike."""

import re

_CODE = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]+(?:\n[^`\n]+)?`)", re.MULTILINE | re.DOTALL)
_LIST = re.compile(r"^\s*(?:[-*]|\d+\.) ")
# A call with its keywords, or a name with dots, colons or underscores.
_NAME = re.compile(r"(?<![\w/])(?:\w+\(\w+=[\w=, .]*\)|\w*[a-zA-Z0-9]+(?:_|::|\.)[\w:.]*\w(?:\(\))?)")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def links_replaced(text, replace):
    """With the target of every link as `replace` has it; code stays."""
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(lambda link: link[1] + replace(link[2]) + link[3], part) for part in parts[::2]]
    return "".join(parts)


def spaced(text):
    """With the empty lines before lists, tables and code that Python-Markdown needs, and inner lists as deep as it wants."""
    lines, fenced = [], False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        if line.startswith("```"):
            if not fenced and before:
                lines.append("")
            fenced = not fenced
        elif not fenced:
            begins_list = bool(_LIST.match(line)) and not (_LIST.match(before) or before.startswith("  "))
            begins_table = line.startswith("|") and not before.startswith("|")
            if before and (begins_list or begins_table):
                lines.append("")
            if re.match(r" {2,3}- ", line):
                line = "    " + line.lstrip()
        lines.append(line)
        if line.startswith("```") and not fenced:
            lines.append("")
    return "\n".join(lines) + "\n"


def sections(text):
    """What stands before the first `## `, and the title and text of each."""
    parts, fenced = [("", [])], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            parts.append((line[3:], []))
        else:
            parts[-1][1].append(line)
    named = [(title, "\n".join(lines).strip() + "\n") for title, lines in parts]
    return named[0][1], named[1:]


def headings(text):
    return re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)


def slug(title):
    """The anchor of a heading, as GitHub and the site have it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def prose(text):
    """Plain text of comments and docstrings: names with an underscore are code, nothing else is markup."""
    shown = []
    for part in re.split(r"(`[^`]+`)", text):
        if not part.startswith("`"):
            part = part.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
            part = _NAME.sub(_as_code, part)
        shown.append(part)
    return "".join(shown)


def _as_code(match):
    word = match[0]
    return f"`{word}`" if "_" in word or "::" in word or word.endswith(")") else word


def paragraphs(lines):
    """Lines of a comment or docstring: those that are indented are code, the others prose."""
    shown, code = [], []

    def end_code():
        while code and not code[-1].strip():
            code.pop()
        if code:
            least = min(len(line) - len(line.lstrip()) for line in code if line.strip())
            shown.extend(["", "```text", *(line[least:] for line in code), "```", ""])
        code.clear()

    for line in lines:
        in_list = bool(shown) and bool(_LIST.match(shown[-1]) or shown[-1].startswith("  "))
        if line.startswith("  ") and not in_list or code and not line.strip():
            code.append(line)
        else:
            end_code()
            shown.append(line)
    end_code()
    joined = "\n".join(shown)
    parts = re.split(r"(^```.*?^```$)", joined, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [prose(part) for part in parts[::2]]
    return spaced("".join(parts)).strip()


def definition(terms, text):
    """Names with what is said of them."""
    body = text.strip().splitlines() or ["&nbsp;"]
    return "\n".join([*(f"`{term}`" for term in terms), *_indented(body)]) + "\n\n"


def _indented(lines):
    return [(":   " if index == 0 else "    ") + line if line.strip() else "" for index, line in enumerate(lines)]
