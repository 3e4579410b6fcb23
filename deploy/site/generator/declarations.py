"""Headers and protos as pages: each declaration with the comment above it.

A comment is of what follows it: fields of one type that share it stand together. Comments at the top say what the file
is. What is private is left out.
"""

import dataclasses
import re

from generator import markdown

_SKIPPED = re.compile(r"^(#(?!define \w+[ (]\S)|namespace\b|\} *// namespace|extern \"C\"|\}$|using \w|syntax\b|package\b|import\b|"
                      r"option\b|static_assert|reserved\b|friend\b)")
_WITH_BODY = re.compile(r"(?:^|[\s>])(class|struct|enum|message|service|oneof|union)\s+(?:class\s+)?(\w+)[^;()=]*\{")


@dataclasses.dataclass
class Declaration:
    comment: list[str]
    code: str

    @property
    def body(self):
        """Kind and name, where it has members."""
        found = _WITH_BODY.search(self.code.split("{", 1)[0] + "{") if "{" in self.code else None
        return (found[1], found[2]) if found else None

    @property
    def name(self):
        if self.body:
            return self.body[1]
        if self.code.startswith("#define"):
            return self.code.split()[1].split("(")[0]
        called = re.search(r"([\w~]+|operator\S+)\s*\(", self.code)
        if called:
            return called[1]
        return re.sub(r"\s*(=.*|\{.*|\[.*|;.*)$", "", self.code, flags=re.DOTALL).split()[-1]

    @property
    def type(self):
        """Of a field; functions have none in common."""
        return self.code.split(self.name)[0].strip() if "(" not in self.code else self.code

    @property
    def line(self):
        """In one line, without bodies and initializers of functions."""
        code = " ".join(self.code.split())
        if "(" in code and not self.body and not code.startswith("rpc "):
            depth = 0
            for place, letter in enumerate(code):
                depth += (letter == "(") - (letter == ")")
                if depth == 0 and letter in "{:" and ")" in code[:place] and code[place - 1] == " ":
                    code = code[:place]
                    break
        return code.rstrip(" ;{}" if not code.endswith("{}") else " ;")


def _comment(line):
    return re.sub(r"^\s*//+ ?", "", line)


def read(text):
    """The comment at the top, and the declarations."""
    lines = text.splitlines()
    intro = []
    while lines and (lines[0].startswith("//") or not lines[0].strip()):
        line = lines.pop(0)
        intro.append(_comment(line))
    return intro, _declarations(lines)


def _declarations(lines):
    found, comment, place = [], [], 0
    while place < len(lines):
        line = lines[place].strip()
        place += 1
        if re.match(r"(private|protected):", line):
            break
        if line.startswith("//"):
            comment.append(_comment(line))
            continue
        if not line or line == "public:" or _SKIPPED.match(line):
            comment = []
            if line.startswith("using ") or line.startswith("#"):
                while lines[place - 1].endswith("\\") or line.startswith("using ") and not lines[place - 1].rstrip().endswith(";"):
                    place += 1
            continue
        statement = [lines[place - 1]]
        while not _complete(statement) and place < len(lines):
            statement.append(lines[place])
            place += 1
        code = "\n".join(statement)
        behind = re.search(r";\s*// (.*)$", statement[-1]) if len(statement) == 1 else None
        if behind:
            comment, code = comment or [behind[1]], code[:behind.start() + 1]
        found.append(Declaration(comment, code.strip()))
        comment = []
    return found


def _complete(statement):
    if statement[0].lstrip().startswith("#define"):
        return not statement[-1].endswith("\\")
    code = re.sub(r"//[^\n]*", "", "\n".join(statement))
    code = re.sub(r"'[^']'|\"[^\"\n]*\"", "''", code)
    if any(code.count(opening) != code.count(closing) for opening, closing in ("{}", "()")):
        return False
    code = code.rstrip()
    return code.endswith(";") or code.endswith("}") or code.endswith(",") and "(" not in code and "<" not in code


def _members(declaration):
    inside = declaration.code[declaration.code.index("{") + 1:declaration.code.rindex("}")]
    if declaration.body[0] == "class":
        public = re.search(r"^ ?public:", inside, re.MULTILINE)
        if not public:
            return []
        inside = inside[public.end():]
    if declaration.body[0] == "enum" and ";" not in inside:
        # One value a line, the last one with its comma too.
        inside = re.sub(r"(?m)^([^/\n]*[\w)])(\s*(?://.*)?)$", r"\1,\2", inside)
    return _declarations(inside.splitlines())


def _shown(declaration, language, outer=""):
    name = f"{outer}{declaration.name}"
    text = [f"{'###' if outer else '##'} {name}", "", markdown.paragraphs(declaration.comment), ""]
    if not declaration.body:
        text += [f"```{language}", re.sub(r"(?m)^  ", "", declaration.code) if outer else declaration.code, "```"]
        return "\n".join(text) + "\n\n"
    inner, groups = [], []
    for member in _members(declaration):
        if member.body and member.body[0] == "oneof":
            groups.append(([member], member.comment))
            groups += [([one], one.comment) for one in _members(member)]
        elif member.body:
            inner.append(member)
        elif member.comment or not groups or member.type != groups[-1][0][-1].type:
            groups.append(([member], member.comment))
        else:
            groups[-1][0].append(member)
    text.append("")
    for members, comment in groups:
        terms = [member.line.rstrip(",") if not member.body else f"oneof {member.name}" for member in members]
        text.append(markdown.definition(terms, markdown.paragraphs(comment)))
    shown = "\n".join(text) + "\n\n"
    return shown + "".join(_shown(member, language, f"{name}.") for member in inner)


def page(title, text, language):
    intro, declarations = read(text)
    shown, named = [f"# {title}\n\n{markdown.paragraphs(intro)}\n\n"], []
    for declaration in declarations:
        # Overloads, and what shares a comment, stand below one heading.
        if named and not declaration.comment and not declaration.body and not named[-1].body:
            named[-1].code += "\n" + declaration.code
        else:
            named.append(declaration)
    shown += [_shown(declaration, language) for declaration in named]
    return "".join(shown)
