"""The notebooks run, print what they say, and are stored without outputs."""

import pathlib
import re

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

EXAMPLES = pathlib.Path(__file__).parents[3] / "client/python/examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run(name):
    """What its cells printed, and what they drew as HTML."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, extra_arguments=["--log-level=ERROR"], resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    return printed, [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]


def test_a_first_plan_is_drawn():
    printed, drawn = run("first_plan.ipynb")
    assert "<Plan: 256 sequences on 4 ranks x 7 micro-batches, " in printed
    assert "90.0% of the padded batch is not computed" in printed
    (picture,) = drawn
    assert picture.startswith("<iframe srcdoc=") and "Ranks over time" in picture


def test_a_training_step_has_the_gradients_of_single_sequences():
    """Its last assertion compares them."""
    pytest.importorskip("torch")
    printed, _ = run("training_step.ipynb")
    packed, alone = (float(loss) for loss in re.findall(r"^loss (\d+\.\d+)", printed, re.MULTILINE))
    assert packed == pytest.approx(alone, abs=2e-5)
    assert "; gradients differ by " in printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


def test_all_notebooks_run_here():
    assert [path.name for path in NOTEBOOKS] == ["first_plan.ipynb", "training_step.ipynb"]
