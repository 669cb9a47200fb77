"""What `overparam migrate` changes in a script, what it says of it, and that it executes nothing unless asked."""

import ast

import pytest

from overparam.cli import run
from overparam.neural_tangents.migration import migrate, migrate_file, outputs


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import neural_tangents as nt", "import overparam.neural_tangents as nt"),
        ("import neural_tangents", "import overparam.neural_tangents as neural_tangents"),
        ("import neural_tangents.stax", "import overparam.neural_tangents as neural_tangents"),
        ("import neural_tangents as nt, numpy as np", "import overparam.neural_tangents as nt\nimport numpy as np"),
        (
            "if True: import numpy, neural_tangents as nt",
            "if True: import numpy; import overparam.neural_tangents as nt",
        ),
        (
            "from neural_tangents import (\n    stax,  # é\n)",
            "from overparam.neural_tangents import (\n    stax,  # é\n)",
        ),
        ("from neural_tangents.stax import *", "from overparam.neural_tangents.stax import *"),
        ("from .neural_tangents import x", "from .neural_tangents import x"),
        ("import neural_tangents_tools", "import neural_tangents_tools"),
        ("from jax import tree_map as m, jit", "from jax.tree import map as m\nfrom jax import jit"),
        ("from jax.config import config; config.update('a', 1)", "from jax import config; config.update('a', 1)"),
        ("from jax.experimental import optimizers", "from jax.example_libraries import optimizers"),
        ("import jax\ny = 'é', jax.tree_map(f, x)", "import jax\ny = 'é', jax.tree.map(f, x)"),
        (
            "import neural_tangents as nt\nk = nt.empirical_implicit_ntk_fn(f)",
            "import overparam.neural_tangents as nt\nk = nt.empirical_ntk_fn(f)",
        ),
        ("jax = mine()\nprint(other.tree_map)", "jax = mine()\nprint(other.tree_map)"),
    ],
)
def test_what_changes(before, after):
    found = migrate(before)
    assert found.after == after
    assert found.notes == ()
    ast.parse(found.after)
    assert migrate(found.after).after == found.after
    assert bool(found.diff) == (before != after)


def test_what_is_not_offered_is_said_with_its_line():
    text = "import neural_tangents as nt\nfrom neural_tangents import stax\n\nstax.Aggregate()\nnt._src.x\nnt.nonsense\nnt.predict.Gaussian.mean"
    notes = dict(migrate(text).notes)
    assert set(notes) == {4, 5, 6}
    assert "`stax.Aggregate` is not offered; instead:" in notes[4]
    assert "private" in notes[5]
    assert "nonsense" in notes[6]
    several = migrate("import neural_tangents as nt\nk = nt.batch(f, 2,\n    device_count=4)").notes
    assert several[0][0] == 3
    assert "`device_count=4` is not offered; leave it out" in several[0][1]
    assert not migrate("import neural_tangents as nt\nk = nt.batch(f, 2, device_count=0)").notes
    assert "import it from there" in migrate("import jax.tree_util as u\nu.tree_multimap(f)").notes[0][1]


def test_the_command_shows_writes_and_executes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "old.py"
    script.write_text("import neural_tangents as nt\nopen('executed', 'w')\n", encoding="utf-8")
    assert run(["migrate", "old.py", "--out", "new.py"]) == 0
    shown = capsys.readouterr().out
    assert "-import neural_tangents as nt\n+import overparam.neural_tangents as nt\n" in shown
    assert (tmp_path / "new.py").read_text(encoding="utf-8").startswith("import overparam.neural_tangents as nt\n")
    assert not (tmp_path / "executed").exists()
    assert run(["migrate", "old.py", "--out", "new.py"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(["migrate", "new.py"]) == 0
    assert "nothing changes" in capsys.readouterr().out
    for name, content, words in (
        ("no.py", b"def (", "no Python"),
        ("bytes.py", b"\xff\xfe", "UTF-8"),
        ("nul.py", b"a\0", "no Python"),
    ):
        (tmp_path / name).write_bytes(content)
        assert run(["migrate", name]) == 2
        line = capsys.readouterr().err
        assert words in line
        assert line.count("\n") == 1
    assert run(["migrate", "missing.py"]) == 2


def test_before_and_after_are_compared_when_asked(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("import side\nprint('loss', side.x)\n", encoding="utf-8")
    (tmp_path / "side.py").write_text("x = 0.25", encoding="utf-8")
    found = migrate_file(script)
    assert outputs(script, found).startswith(
        "both run and say the same words in 1 lines; their 1 numbers differ by at most 0 "
    )
    script.write_text("import neural_tangents_of_nobody", encoding="utf-8")
    assert outputs(script, migrate_file(script)).startswith("before: it failed with exit code 1: ModuleNotFoundError")
    with pytest.raises(ValueError, match="cannot be run"):
        outputs(script, found, before=str(tmp_path / "python"))
