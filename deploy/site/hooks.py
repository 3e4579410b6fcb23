"""Makes the site's pages of the repository's own: MkDocs calls on_config, then on_files."""

import posixpath
import subprocess
from pathlib import Path

from generator import declarations, markdown, notebooks, python_reference
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "deploy/site/pages"
PROGRAMS = ROOT / "build/release/bin"

# Where the repository's own pages are; names that begin with a dot are others' business.
FOLDERS_OF_PAGES = [".", "client", "deploy", "kernels", "server", "tests"]
# One page a section.
DIVIDED = {"client/python/trainers.md": "client/python/trainers"}
NOTEBOOKS = {
    "client/python/examples/first_plan.ipynb": "tutorial/first_plan.md",
    "client/python/examples/training_step.ipynb": "tutorial/training_step.md",
}
# Headers and protos, in the order of the navigation: folder of the pages, folder of the sources, suffix, language.
DECLARED = [
    ("reference/cpp", "client/cpp/include/batchplan", ".h", "cpp"),
    ("reference/kernels", "kernels/include/batchplan", ".h", "c"),
    ("reference/kernels", "kernels/include/batchplan", ".hpp", "cpp"),
    ("reference/kernels", "kernels/include/batchplan/kernels", ".h", "c"),
    ("reference/contract", "proto/batchplan/v1", ".proto", "protobuf"),
]
FOLDERS = {
    "client/cli": "reference/command.md",
    "client/cpp/include/batchplan": "reference/cpp/client.md",
    "proto/batchplan/v1": "reference/contract/batch_planner.md",
}
FIRST = ["batch_planner", "client", "kernels", "options"]
LANGUAGES = {
    ".cc": "cpp", ".cuh": "cpp", ".h": "cpp", ".hpp": "cpp", ".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml",
}


class Site:
    """Every page that is made, where each source went, and titles of pages by folder for the navigation."""

    def __init__(self):
        self.pages, self.sources, self.sections, self.titles = {}, {}, {}, {}
        self.assets = {}

    def uri_of(self, source, anchor):
        """The page and anchor of a source, for a link. What is no page gets one, a listing."""
        if (source, anchor) in self.sections:
            return self.sections[source, anchor], anchor
        if source not in self.sources:
            path = ROOT / source
            if path.suffix in (".png", ".svg"):
                self.assets[source] = path
                return source, anchor
            if not path.exists():
                raise FileNotFoundError(f"{source}: a page links to it")
            self.sources[source] = uri = FOLDERS.get(source) or f"source/{source}.md"
            if source not in FOLDERS:
                self.pages[uri] = listing(source, path)
        return self.sources[source], anchor

    def add(self, uri, text, source, folder=""):
        """A page whose links are those of its source, a path of the repository."""
        base = posixpath.dirname(source)

        def target(link):
            if "://" in link or link.startswith("mailto:"):
                return link
            path, _, anchor = link.partition("#")
            named = posixpath.normpath(posixpath.join(base, path)) if path else source
            found, anchor = self.uri_of(named, anchor)
            if found == uri and anchor:
                return f"#{anchor}"
            return posixpath.relpath(found, posixpath.dirname(uri) or ".") + (f"#{anchor}" if anchor else "")

        self.pages[uri] = markdown.links_replaced(text, target)
        title = markdown.headings(text)[0]
        title = title.replace("`", "").replace("\\", "").removeprefix("batchplan.")
        self.titles.setdefault(folder or posixpath.dirname(uri), []).append((title, uri))


def listing(source, path):
    if path.is_dir():
        names = sorted(one.name + "/" * one.is_dir() for one in path.iterdir() if not one.name.startswith((".", "_")))
        return f"# {source}\n\n" + "".join(f"- `{name}`\n" for name in names)
    return f"# {source}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n````\n"


def help_page(title, program, commands):
    """What `--help` prints, of the release build."""
    shown = [f"# {title}\n\n"]
    if not (PROGRAMS / program).exists():
        return shown[0] + f"This site was built without `{program}`. `{program} --help` prints what belongs here.\n"
    for command in commands:
        printed = subprocess.run(
            [PROGRAMS / program, *command.split(), "--help"], capture_output=True, text=True, check=True).stdout
        shown += [f"## {program} {command}\n\n" if command else "", f"```text\n{printed.strip()}\n```\n\n"]
    return "".join(shown)


def declared_pages():
    for folder, path, suffix, language in DECLARED:
        for source in sorted((ROOT / path).glob(f"*{suffix}"), key=lambda one: (one.stem not in FIRST, one.name)):
            stem = source.stem if suffix != ".hpp" else f"{source.stem}_hpp"
            yield f"{folder}/{stem}.md", source, language


def own_pages():
    for folder in FOLDERS_OF_PAGES:
        for path in sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*.md")):
            source = str(path.relative_to(ROOT))
            if source not in DIVIDED and PAGES not in path.parents:
                yield source


def built():
    site = Site()
    for source in own_pages():
        # A page called index would be the one of its section.
        site.sources[source] = "index.md" if source == "README.md" else source.replace("/README.md", ".md")
    for page in sorted(PAGES.glob("*.md")):
        site.sources[str(page.relative_to(ROOT))] = page.name
    written = dict(site.sources)
    site.sources.update(NOTEBOOKS)
    declared = list(declared_pages())
    for uri, source, _ in declared:
        site.sources[str(source.relative_to(ROOT))] = uri
    divided = []
    for source, folder in DIVIDED.items():
        intro, parts = markdown.sections((ROOT / source).read_text())
        site.sources[source] = f"{folder}/index.md"
        divided.append((f"{folder}/index.md", intro + "\n" + "".join(
            f"## {title}\n\n{text}\n" for title, text in parts[:1]), source, folder))
        for title, text in parts[1:]:
            uri = f"{folder}/{markdown.slug(title)}.md"
            for heading in [title, *markdown.headings(text)]:
                site.sections[source, markdown.slug(heading)] = uri
            divided.append((uri, f"# {title}\n\n{text}", source, folder))

    for uri, text, source, folder in divided:
        site.add(uri, markdown.spaced(text), source, folder)
    for source, uri in written.items():
        site.add(uri, markdown.spaced((ROOT / source).read_text()), source)
    for source, uri in NOTEBOOKS.items():
        text, pictures = notebooks.page(ROOT / source)
        site.add(uri, text, source)
        site.assets.update({f"{posixpath.dirname(uri)}/{name}": page for name, page in pictures.items()})
    for uri, source, language in declared:
        site.add(uri, declarations.page(source.name, source.read_text(), language), "reference")
    integrations = sorted(
        one.stem for one in (ROOT / "client/python/src/batchplan/integrations").iterdir() if not one.name.startswith("_"))
    for module in ("batchplan", "batchplan.torch", *(f"batchplan.integrations.{one}" for one in integrations)):
        site.add(f"reference/python/{module}.md", python_reference.page(module), "reference")
    commands = ["", "plan", "join", "compare", "sweep", "lengths", "bench", "completion", "version"]
    site.add("reference/command.md", help_page("The command", "batchplan", commands), "reference")
    site.add("reference/server.md", help_page("The server's flags", "batchplan-server", [""]), "reference")
    how_good = dict(markdown.sections((ROOT / "README.md").read_text())[1])["How good are the plans?"]
    site.add("how_good.md", markdown.spaced(f"# How good are the plans?\n\n{how_good}"), "README.md")
    contract = declarations.read((ROOT / "proto/batchplan/v1/batch_planner.proto").read_text())[0]
    site.add("errors.md", errors_page(contract), "README.md")
    return site


def errors_page(contract):
    """The codes of the contract, and Python's exceptions."""
    python = dict(markdown.sections((ROOT / "client/python/README.md").read_text())[1])["What goes wrong"]
    python = markdown.links_replaced(python, lambda link: f"client/python/{'README.md' if link.startswith('#') else ''}{link}")
    return f"# Errors\n\n## gRPC\n\n{markdown.paragraphs(contract)}\n\n## Python\n\n{markdown.spaced(python)}"


_site = built()


def _named(entries):
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from _named(value) if isinstance(value, list) else [value]


def on_config(config):
    """A name in the navigation that ends in * is all pages of its folder that stand nowhere else."""
    named = set(_named(config.nav))

    def expanded(entries):
        for entry in entries:
            ((title, value),) = entry.items() if isinstance(entry, dict) else [(None, entry)]
            if isinstance(value, list):
                yield {title: list(expanded(value))}
            elif value.endswith("/*"):
                pages = [(name, uri) for name, uri in _site.titles[value[:-2]] if uri not in named]
                found = [uri if uri.endswith("/index.md") else {name: uri} for name, uri in pages]
                yield from [{title: found}] if title else found
            else:
                yield entry

    config.nav = list(expanded(config.nav))
    return config


def on_files(files, config):
    # pages/ is read above, with its links.
    for file in list(files):
        if file.src_uri.endswith(".md"):
            files.remove(file)
    for uri, text in _site.pages.items():
        files.append(File.generated(config, uri, content=text))
    for uri, found in _site.assets.items():
        content = {"abs_src_path": str(found)} if isinstance(found, Path) else {"content": found}
        files.append(File.generated(config, uri, **content))
    return files
