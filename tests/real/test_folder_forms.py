"""A user's folder as a task: every form of evaluator that other tools' users have."""

import math
import pickle
from pathlib import Path

import pytest

from daydream.errors import ConfigError, TaskError
from daydream.tasks.base import Artifact
from daydream.tasks.folder import open_folder
from daydream.tree import Status
from tests.real.problems import HONEST, LOAD, PROGRAM, problem, scored


@pytest.mark.parametrize(
    ("returned", "metrics", "feedback"),
    [
        ("value", None, ""),
        ("(value, {'speed': 3, 'feedback': 'slow'})", {"speed": 3}, "slow"),
        ("(value, 'in words')", None, "in words"),
        ("{'combined_score': value, 'speed': 3}", {"speed": 3}, ""),
        ("{'score': value, 'artifacts': {'log': b'bytes'}}", None, "log:\nbytes"),
        ("Result({'combined_score': value, 'speed': 3}, {'log': 'x'})", {"speed": 3}, "log:\nx"),
        ("Zero(value)", None, ""),
        ("{'combined_score': Zero(value), 'speed': Zero(3)}", {"speed": 3}, ""),
        ("fractions.Fraction(1, 2)", None, ""),
        ("decimal.Decimal('0.5')", None, ""),
    ],
)
def test_every_form_of_answer_is_understood(
    returned: str, metrics: dict[str, float] | None, feedback: str
) -> None:
    evaluator = (
        LOAD
        + "import decimal, fractions\n"
        + "class Result:\n    def __init__(self, metrics, artifacts):\n"
        + "        self.metrics, self.artifacts = metrics, artifacts\n"
        + "class Zero:\n    ndim = 0\n    def __init__(self, v): self.v = v\n"
        + "    def item(self): return self.v\n"
        + "def evaluate(program_path):\n    value = load(program_path).value()\n"
        + f"    return {returned}\n"
    )
    found = scored(problem(evaluator))
    assert (found.status, found.score, found.message) == (Status.OK, 0.5, "")
    assert found.diagnostics.get("metrics") == metrics
    assert found.feedback == feedback


def test_numpy_numbers_are_numbers_and_numpy_truths_are_none() -> None:
    template = "import numpy\ndef evaluate(p): return {{'combined_score': {}}}\n"
    assert scored(problem(template.format("numpy.float32(0.25)"))).score == 0.25
    assert scored(problem(template.format("numpy.int64(3)"))).score == 3.0
    assert scored(problem(template.format("numpy.array(2.5)"))).score == 2.5
    assert scored(problem(template.format("numpy.bool_(True)"))).error_class == "bool_score"
    assert scored(problem(template.format("numpy.float64('nan')"))).error_class == "nan_score"


def test_an_evaluator_for_openevolve_runs_without_that_package() -> None:
    evaluator = (
        LOAD
        + "from openevolve.evaluation_result import EvaluationResult\n"
        + "def evaluate(program_path):\n"
        + "    result = EvaluationResult(metrics={'combined_score': load(program_path).value()},\n"
        + "                              artifacts={'stderr': 'none'})\n"
        + "    assert result.has_artifacts() and result.get_artifact_keys() == ['stderr']\n"
        + "    assert result.get_total_artifact_size() == result.get_artifact_size('stderr') == 4\n"
        + "    assert EvaluationResult.from_dict({'a': 1}).to_dict() == {'a': 1}\n"
        + "    return result\n"
    )
    found = scored(problem(evaluator))
    assert (found.score, found.feedback) == (0.5, "stderr:\nnone")
    other = evaluator.replace("openevolve", "skydiscover.evaluation")
    assert scored(problem(other)).score == 0.5


def test_an_installed_package_wins_over_the_stand_in() -> None:
    evaluator = "from openevolve.evaluation_result import HERE\ndef evaluate(p): return HERE\n"
    files = {"openevolve/__init__.py": "", "openevolve/evaluation_result.py": "HERE = 4.0\n"}
    task = problem(evaluator, files)
    assert scored(task).score == 4.0


STAGES = """
def evaluate(program_path): return 99.0
def evaluate_stage1(program_path): return {"combined_score": ONE, "one": 1, "artifacts": {"a": "1"}}
def evaluate_stage2(program_path): return {"combined_score": TWO, "two": 2, "artifacts": {"b": "2"}}
def evaluate_stage3(program_path): return {"combined_score": 3.0, "three": 3}
"""


@pytest.mark.parametrize(
    ("one", "two", "cascade", "score", "stage"),
    [
        (0.4, 0.8, "true", 0.4, 1),
        (0.5, 0.7, "true", 0.7, 2),
        (0.5, 0.75, "true", 3.0, 3),
        (0.1, 0.2, "[0.1]", 0.2, 2),
        (0.1, 0.2, "[0.1, 0.2]", 3.0, 3),
        (math.nan, 0.8, "true", None, 1),
        (0.4, 0.8, "false", 99.0, None),
    ],
)
def test_stages_run_while_the_score_reaches_the_threshold(
    one: float, two: float, cascade: str, score: float | None, stage: int | None
) -> None:
    text = STAGES.replace("ONE", f"float('{one}')").replace("TWO", str(two))
    found = scored(problem(text, settings=f"[task]\ncascade = {cascade}\n"))
    assert (found.score if found.status is Status.OK else None) == score
    metrics = found.diagnostics.get("metrics", {})
    assert isinstance(metrics, dict)
    assert metrics.get("stage") == stage
    if stage == 3:
        assert metrics["one"] + metrics["two"] + metrics["three"] == 6
        assert found.feedback == "a:\n1\n\nb:\n2"


def test_a_stage_without_a_combined_score_passes_on_the_mean_of_its_numbers() -> None:
    text = (
        "def evaluate_stage1(p): return {'runs': 1.0, 'rate': 0.5, 'error': 0.0}\n"
        "def evaluate_stage2(p): return {'combined_score': 2.0}\n"
    )
    assert scored(problem(text, settings="[task]\ncascade = [0.75]\n")).score == 2.0
    stopped = scored(problem(text, settings="[task]\ncascade = [0.76]\n"))
    assert (stopped.status, stopped.error_class) == (Status.ERROR, "no_score")


def test_stages_of_a_number_that_should_be_low_pass_below_their_threshold() -> None:
    text = STAGES.replace("ONE", "5.0").replace("TWO", "2.0")
    settings = '[task]\ndirection = "min"\ncascade = [5.0, 1.0]\n'
    found = scored(problem(text, settings=settings))
    assert (found.score, found.diagnostics["measure"]) == (-2.0, 2.0)


SCRIPT = """
import argparse, json, os
from pathlib import Path
def main(program_path, results_dir):
    scope = {}
    exec(Path(program_path).read_text(), scope)
    Path(results_dir).mkdir(exist_ok=True)
    Path(results_dir, "metrics.json").write_text(json.dumps(
        {"combined_score": scope["value"](), "public": {"speed": 3}, "private": {"secret": 4},
         "text_feedback": "go on"}))
    Path(results_dir, "correct.json").write_text(json.dumps(CORRECT))
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path")
    parser.add_argument("--results_dir")
    main(**vars(parser.parse_args()))
"""


def script_folder(text: str) -> Path:
    folder = Path("script")
    folder.mkdir(exist_ok=True)
    (folder / "initial.py").write_text(PROGRAM)
    (folder / "evaluate.py").write_text(text)
    return folder


def test_a_script_that_writes_two_files_of_results_is_understood() -> None:
    right = SCRIPT.replace("CORRECT", '{"correct": True, "error": ""}')
    task = open_folder(script_folder(right))
    found = task.evaluate(task.root())
    assert (found.score, found.feedback) == (0.5, "go on")
    assert found.diagnostics["metrics"] == {"speed": 3}
    assert "secret" not in str(found)
    wrong = SCRIPT.replace("CORRECT", '{"correct": False, "error": "too wide"}')
    task = open_folder(script_folder(wrong))
    found = task.evaluate(task.root())
    assert (found.status, found.message) == (Status.INVALID, "too wide")


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("sys.exit(2)", Status.ERROR, "SystemExit: 2"),
        ("sys.exit(0)", Status.ERROR, "wrote no metrics.json"),
        ("open(sys.argv[4] + '/metrics.json', 'w').write('[1]')", Status.ERROR, "no JSON object"),
        ("open(sys.argv[4] + '/metrics.json', 'w').write('{')", Status.ERROR, "JSONDecodeError"),
    ],
)
def test_a_script_without_results_is_a_failure(ending: str, status: Status, said: str) -> None:
    text = f"import sys\nif __name__ == '__main__':\n    '--results_dir'\n    {ending}\n"
    task = open_folder(script_folder(text))
    found = task.evaluate(task.root())
    assert found.status is status
    assert said in found.message


def test_an_evaluator_for_shinka_runs_without_that_package() -> None:
    text = (
        "import sys\nfrom shinka.core import run_shinka_eval\n"
        "def score(outputs):\n"
        "    return {'combined_score': sum(outputs), 'public': {'n': len(outputs)}}\n"
        "def valid(output): return output < LIMIT, 'too much'\n"
        "if __name__ == '__main__':\n"
        "    _, program, _, results_dir = sys.argv[1:]\n"
        "    run_shinka_eval(program, results_dir, 'value', 3, lambda i: {}, score, valid)\n"
    )
    task = open_folder(script_folder(text.replace("LIMIT", "1")))
    found = task.evaluate(task.root())
    assert found.score == 1.5
    assert isinstance(found.diagnostics["metrics"], dict)
    assert found.diagnostics["metrics"]["n"] == 3
    task = open_folder(script_folder(text.replace("LIMIT", "0.1")))
    assert task.evaluate(task.root()).message == "Validation failed: too much"
    broken = task.evaluate(Artifact({"initial.py": b"def value(): return 1 / 0\n"}))
    assert (broken.status, broken.message) == (Status.INVALID, "division by zero")


def test_the_evaluator_reads_its_siblings_and_its_data_from_where_it_starts() -> None:
    evaluator = (
        "import helper\ndef evaluate(program_path):\n"
        "    return float(open('data.txt').read()) + helper.more()\n"
    )
    files = {
        "helper.py": "import lib.deep\ndef more(): return lib.deep.MORE\n",
        "data.txt": "1.5",
        "lib/deep.py": "MORE = 2\n",
    }
    task = problem(evaluator, files)
    assert scored(task).score == 3.5


def test_an_evaluator_may_live_in_a_folder_of_its_own() -> None:
    folder = Path("task")
    (folder / "evaluator").mkdir(parents=True)
    (folder / "init_program.cpp").write_text("// 7\n")
    (folder / "evaluator" / "evaluator.py").write_text(
        "import helper, pathlib\ndef evaluate(p):\n"
        "    assert p.endswith('.cpp')\n    return helper.read(pathlib.Path(p))\n"
    )
    (folder / "evaluator" / "helper.py").write_text("def read(p): return len(p.read_text())\n")
    task = open_folder(folder)
    assert task.evaluate(task.root()).score == 5.0
    assert sorted(task.root().files) == ["init_program.cpp"]


def test_a_program_of_several_files_is_scored_as_a_folder_or_by_its_entry() -> None:
    folder = Path("task")
    (folder / "initial_program" / "lib").mkdir(parents=True)
    (folder / "initial_program" / "main.py").write_text("A = 1\n")
    (folder / "initial_program" / "lib" / "b.txt").write_text("22")
    text = "import os\ndef evaluate(p): return {'score': 1.0, 'feedback': ' '.join([FOUND])}\n"
    (folder / "evaluator.py").write_text(text.replace("FOUND", "*sorted(os.listdir(p))"))
    task = open_folder(folder)
    assert sorted(task.root().files) == ["lib/b.txt", "main.py"]
    assert task.evaluate(task.root()).feedback == "lib main.py"
    (folder / "evaluator.py").write_text(text.replace("FOUND", "os.path.basename(p)"))
    (folder / "daydream.toml").write_text('[task]\nentry = "main.py"\n')
    task = open_folder(folder)
    assert task.evaluate(task.root()).feedback == "main.py"
    assert task.evaluate(Artifact({"lib/b.txt": b""})).error_class == "no_program"


def test_the_median_of_the_valid_repeats_is_the_score() -> None:
    evaluator = (
        "import os\nSEEN = os.environ['SEEN']\ndef evaluate(p):\n"
        "    count = len(os.listdir(SEEN))\n    open(f'{SEEN}/{count}', 'w').close()\n"
        "    return {'combined_score': [9.0, 1.0, float('nan'), 2.0, 7.5][count], 'n': count}\n"
    )
    seen = Path("seen").resolve()
    seen.mkdir()
    evaluator = evaluator.replace("os.environ['SEEN']", repr(str(seen)))
    task = problem(evaluator, settings="[task]\nrepeats = 5\n", sandbox="process")
    assert task.info.noisy
    found = scored(task)
    assert (found.status, found.score) == (Status.OK, 4.75)
    assert found.diagnostics["repeats"] == [9.0, 1.0, 2.0, 7.5]
    assert found.diagnostics["failed_repeats"] == 1


def test_what_people_are_told_of_a_folder() -> None:
    settings = '[task]\ndirection = "min"\nmeasure = "seconds"\nstatement = "Make it fast."\n'
    info = problem(settings=settings).info
    assert (info.name, info.policy, info.scale) == ("task", "parallel_refine-w4-d4", None)
    assert (info.goal, info.measure, info.transform, info.agent) == ("min", "seconds", "negate", "")
    assert "Make it fast." in info.statement
    assert "EVOLVE-BLOCK-START" in info.statement
    assert "initial_program.py" in info.statement


def test_the_version_follows_what_changes_numbers_and_nothing_else() -> None:
    def version(settings: str = "[task]\n", files: dict[str, str] | None = None) -> str:
        return problem(HONEST, files, settings=settings).info.evaluator

    first = version()
    assert version('[task]\nname = "other"\nmemory = "1GB"\n[run]\nrounds = 3\n') == first
    assert version(files={"README.md": "words"}) == first
    assert version(files={"initial_program.py": "def value(): return 1\n"}) == first
    assert version(files={"runs/x/journal.jsonl": "{}"}) == first
    assert version('[task]\nignore = ["notes*"]\n', {"notes.txt": "n"}) == first
    Path("task/notes.txt").unlink()
    changes = ("timeout = 61", 'direction = "min"', "repeats = 2", "cascade = true")
    different = {version(f"[task]\n{line}\n") for line in changes}
    different.add(version(files={"helper.py": "x = 1\n"}))
    assert len(different | {first}) == 6


def test_a_task_pickles_and_evaluates_the_same() -> None:
    task = problem()
    other = pickle.loads(pickle.dumps(task))
    assert other.info == task.info
    assert other.evaluate(task.root()) == task.evaluate(task.root())


def test_the_files_of_a_run_are_those_of_its_start() -> None:
    task = problem()
    Path("task/evaluator.py").write_text("def evaluate(p): return 9.0\n")
    assert scored(task).score == 0.5
    assert open_folder(Path("task")).info.evaluator != task.info.evaluator


def test_large_data_is_read_in_place_through_a_link() -> None:
    evaluator = "def evaluate(p): return float(open('big/data.txt').read())\n"
    files = {"big/data.txt": "2.5"}
    task = problem(evaluator, files, settings='[task]\nlink = ["big"]\n')
    assert "big/data.txt" not in task.evaluator.files
    assert scored(task).score == 2.5
    assert Path("task/big/data.txt").read_text() == "2.5"
    grown = problem(evaluator, {"big/data.txt": "2.75"})
    assert grown.info.evaluator != task.info.evaluator


@pytest.mark.parametrize(
    ("files", "settings", "error", "said"),
    [
        ({}, "", TaskError, "no initial program"),
        ({"initial_program.py": ""}, "", TaskError, "evaluator.py does not exist"),
        ({"initial.py": "", "initial.cpp": ""}, "", TaskError, "initial.cpp, initial.py"),
        ({"initial.py": "", "evaluator.py": "x = 1"}, "", TaskError, "neither a function"),
        ({"initial.py": "", "evaluator.py": "def f("}, "", TaskError, "no valid Python"),
        ({"initial_program/a": "", "evaluator.py": HONEST}, 'entry = "b"', ConfigError, "a"),
        ({"initial.py": "", "evaluator.py": HONEST}, 'python = "no-such"', ConfigError, "no-such"),
        ({"initial.py": "", "evaluator.py": HONEST}, 'protected = ["t*"]', ConfigError, "t*"),
        ({"initial.py": "", "evaluator.py": HONEST}, 'link = ["data"]', ConfigError, "data"),
        ({"initial.py": "", "evaluator.py": HONEST}, 'program = "x.py"', TaskError, "x.py"),
        ({"initial.py": "", "evaluator.py": HONEST}, 'program = "../x"', ConfigError, "inside"),
        ({"initial.py": "", "evaluate.py": SCRIPT}, "cascade = true", ConfigError, "is a script"),
    ],
)
def test_a_folder_that_cannot_be_used_says_what_is_missing(
    files: dict[str, str], settings: str, error: type[Exception], said: str
) -> None:
    folder = Path("task")
    for name, text in {**files, "daydream.toml": f"[task]\n{settings}\n"}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with pytest.raises(error) as caught:
        open_folder(folder)
    assert said in str(caught.value)


def test_a_path_that_is_no_folder_names_init() -> None:
    with pytest.raises(TaskError, match="daydream init"):
        open_folder(Path("nowhere"))
