"""Options that commands share, made from the list of settings."""

import functools
from collections.abc import Callable
from typing import Any

import click

from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.settings import Settings, load_settings

CLIENT = ("bootstrap", "kafka")
"""What every command that talks to Kafka takes."""


def pipeline_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The argument ``PIPELINE``; the command gets the pipeline itself."""

    def load(ctx: click.Context, parameter: click.Parameter, value: str) -> Pipeline:  # noqa: ARG001 - click's signature
        return catalog.load(value)

    return click.argument("pipeline", callback=load)(function)


def settings_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A flag for each of these settings; the command gets ``settings``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            flags = {name: kwargs.pop(name) for name in names}
            if "kafka" in flags:
                flags["kafka"] = dict(flags["kafka"])
            return function(*args, settings=load_settings(flags), **kwargs)

        decorated: Callable[..., Any] = run
        for name in reversed(names):
            decorated = _option(name)(decorated)
        return decorated

    return decorate


def _option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    field = Settings.model_fields[name]
    if name == "kafka":
        return click.option(
            "--kafka",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_pairs,
            help="A librdkafka setting; may be repeated.",
        )
    flag = "--" + name.replace("_", "-")
    if field.annotation is bool:
        return click.option(flag, name, is_flag=True, default=None, help=field.description)
    default = "" if field.default in {"", None} else f"  [default: {field.default}]"
    return click.option(flag, name, default=None, help=f"{field.description}{default}")


def _pairs(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        name, equals, setting = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", ctx, parameter)
        pairs.append((name, setting))
    return tuple(pairs)
