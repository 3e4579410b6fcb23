"""A notebook as a page: run, with what it printed and drew."""

import html
import re

import nbclient
import nbformat

from generator import markdown


def run(path):
    """The notebook with its outputs. A cell that fails is an error."""
    notebook = nbformat.read(path, as_version=4)
    # The kernel listens on loopback, and says so at every start unless it is told not to.
    nbclient.NotebookClient(
        notebook, timeout=120, extra_arguments=["--log-level=ERROR"], resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    return notebook


def page(path):
    """Its Markdown, and by name the pages that pictures are."""
    shown, pictures = [], {}
    for cell in run(path).cells:
        if cell.cell_type == "markdown":
            shown.append(markdown.spaced(cell.source))
            continue
        shown.append(f"```python\n{cell.source}\n```")
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout")
        if printed:
            shown.append(f'<div class="output" markdown>\n\n```text\n{printed.rstrip()}\n```\n\n</div>')
        for output in cell.outputs:
            drawn = re.search(r'srcdoc="([^"]*)"', output.get("data", {}).get("text/html", ""))
            if drawn:
                name = f"{path.stem}_{len(pictures)}.html"
                pictures[name] = html.unescape(drawn[1])
                shown.append(f'<iframe class="picture" src="{name}" title="The picture of a plan"></iframe>')
    return "\n\n".join(shown) + "\n", pictures
