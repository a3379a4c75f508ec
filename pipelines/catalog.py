"""Where pipelines come from: the catalog beside this file, ``module:attribute``, or a path to a file."""

import ast
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from features.errors import Misdeclared
from features.schema import did_you_mean
from pipelines.pipeline import Pipeline

ROOTS = ("features", "models", "pipelines", "workers")
"""Headrace's own packages."""

_NOT_PIPELINES = {"catalog", "example", "pipeline", "replay", "training"}

_references: dict[str, str] = {}
"""By name of a pipeline, what it was loaded by."""


def names() -> list[str]:
    """The pipelines that come with Headrace."""
    package = importlib.import_module("pipelines")
    found = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg]
    return sorted(set(found) - _NOT_PIPELINES)


def catalog() -> Iterator[Pipeline]:
    """Every pipeline that comes with Headrace."""
    for name in names():
        yield load(name)


def reference(pipeline: Pipeline) -> str:
    """What it was loaded by, for a command that a message proposes; its name if it was made otherwise."""
    return _references.get(pipeline.name, pipeline.name)


def load(reference: str) -> Pipeline:
    """The pipeline that a name, ``module:attribute`` or path means.

    Raises:
        Misdeclared: If there is none, or its declaration can't be right; the message says what to do.
    """
    where, _, attribute = reference.partition(":")
    if where in names():
        module = importlib.import_module(f"pipelines.{where}")
    elif where.endswith(".py") or "/" in where:
        module = _from_path(Path(where))
    elif attribute:
        module = _from_module(where)
    else:
        raise Misdeclared(
            f"There is no pipeline {reference!r}; {did_you_mean(reference, names())} "
            "Or give module:attribute, or the path of a file that declares one"
        )
    _check_names(module)
    pipeline = getattr(module, attribute or "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        what = "is no Pipeline" if pipeline is not None else "is not there"
        raise Misdeclared(
            f"{reference!r}: {attribute or 'pipeline'} {what}; the file has to say: pipeline = Pipeline(...)"
        )
    _references[pipeline.name] = reference
    return pipeline


def _from_path(path: Path) -> ModuleType:
    if not path.is_file():
        raise Misdeclared(f"There is no pipeline file {str(path)!r}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(
            folder
        )  # behind ours: a folder called features there must not stand in for Headrace's
    spec = importlib.util.spec_from_file_location(f"_pipeline_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Misdeclared:
        raise
    except Exception as error:  # whatever the file of a user does
        raise _unusable(str(path), Path(folder), error) from error
    return module


def _from_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except Misdeclared:
        raise
    except Exception as error:  # whatever the file of a user does
        raise _unusable(name, Path(here), error) from error


def _check_names(module: ModuleType) -> None:
    """Raise `Misdeclared` where a dict names one thing twice: Python would keep the last and say nothing."""
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py"):
        return
    dicts = [node for node in ast.walk(ast.parse(Path(file).read_bytes())) if isinstance(node, ast.Dict)]
    for each in dicts:
        names = [key.value for key in each.keys if isinstance(key, ast.Constant)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise Misdeclared(
                f"{file}, line {each.lineno}: this dict has {twice[0]!r} twice, and the first would be lost; rename one"
            )


def _unusable(what: str, folder: Path, error: Exception) -> Misdeclared:
    imported = getattr(error, "name", None) or "" if isinstance(error, ImportError) else ""
    root = imported.partition(".")[0]
    if root in ROOTS and (folder / root).exists():
        return Misdeclared(
            f"{what} imports {imported!r} from its own folder {str(folder / root)!r}, and {root!r} is the name of a package "
            "of Headrace; rename that folder"
        )
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == what]
    where = f"{what}, line {lines[-1]}," if lines else what
    return Misdeclared(f"{where} can't be loaded: {type(error).__name__}: {error}")
