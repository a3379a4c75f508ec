"""Settings: one typed list; a flag goes over ``HEADRACE_*`` in the environment, that over a TOML file.

What librdkafka understands passes through as ``kafka.*``: ``--kafka security.protocol=SSL``,
``HEADRACE_KAFKA_SECURITY_PROTOCOL=SSL``, or in the file ``[kafka]`` with ``"security.protocol" = "SSL"``.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from features.errors import Misdeclared
from features.schema import did_you_mean

PREFIX = "HEADRACE_"
_KAFKA_PREFIX = "HEADRACE_KAFKA_"
_SECRETS = ("password", "secret", "token", "ssl.key.pem", "oauthbearer.config", "jaas")


_OTHERS = {"settings", "kernel_cache", "pipeline", "require_kafka", "no_skips"}
"""What else is read from ``HEADRACE_*``: by this module, the kernels, `workers.faust_app` and the tests."""


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
_UNITS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86400}


def read_duration(value: Any) -> Any:
    """``500ms``, ``10s``, ``5m``, ``1h``, or seconds; pydantic reads ISO 8601 such as ``PT0.5S``."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    return value


Duration = Annotated[timedelta, BeforeValidator(read_duration)]
"""A stretch of time; see `read_duration`."""


def _read_kafka(value: Any) -> Any:
    """Numbers, true and false as librdkafka writes them: TOML and JSON have types of their own."""
    return str(value).lower() if isinstance(value, bool | int | float) else value


def _flat(value: Any) -> Any:
    """``security.protocol = "SSL"`` without quotes is a table in a table of TOML: join the names again."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        joined = _flat(inner)
        flat |= (
            {f"{name}.{rest}": each for rest, each in joined.items()}
            if isinstance(joined, dict)
            else {name: inner}
        )
    return flat


KafkaText = Annotated[str, BeforeValidator(_read_kafka)]
"""A value of one of librdkafka's settings."""


class Settings(BaseSettings):
    """Everything that can be set, with its default and meaning."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True)

    bootstrap: str = Field(
        "127.0.0.1:9092", description="Kafka brokers to begin with, host:port, comma-separated."
    )
    kafka: Annotated[dict[str, KafkaText], BeforeValidator(_flat)] = Field(
        default_factory=dict, description="librdkafka settings for every client, by their names."
    )
    registry: str = Field("registry", description="Folder or URI (s3://bucket/path) of the model registry.")
    model: str = Field(
        "", description="NAME or NAME:VERSION to score with; by default the pipeline's model, newest version."
    )
    delivery: Literal["at_least_once", "exactly_once"] = Field(
        "at_least_once",
        description="at_least_once, or exactly_once: predictions, dead letters and offsets in one transaction.",
    )
    slot: str = Field(
        "0", description="Which of a pipeline's workers this is; two that run at once need two slots."
    )
    group: str = Field("", description="Consumer group; by default headrace.PIPELINE.")
    cold_start: bool = Field(
        False,
        description="Begin with empty state where the source no longer holds what the state was folded from.",
    )
    checkpoints: str = Field(
        "checkpoints",
        description="Folder or URI (s3://bucket/path) where partitions' states are kept; none keeps none.",
    )
    checkpoint_interval: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(milliseconds=100),
        description="Between two checkpoints of a partition: so much is replayed after a crash.",
    )
    log_features: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the keys whose predictions hold the features' values as well, for parity and analysis.",
    )
    slice_records: int = Field(4000, ge=1, le=100_000, description="Most records of a slice.")
    max_open_bytes: int = Field(
        64 << 20, ge=1 << 20, description="Bytes of records that may wait for predictions."
    )
    commit_interval: Duration = Field(
        timedelta(milliseconds=100),
        ge=timedelta(milliseconds=1),
        description="How often outputs and offsets are committed.",
    )
    drain_timeout: Duration = Field(
        timedelta(seconds=3),
        ge=timedelta(0),
        description="How long a leaving worker finishes what it has begun before it drops it.",
    )
    stuck_after: Duration = Field(
        timedelta(seconds=60),
        ge=timedelta(seconds=1),
        description="Age of the oldest unfinished slice at which the process ends itself.",
    )
    retry_for: Duration = Field(
        timedelta(seconds=60),
        ge=timedelta(seconds=1),
        description="How long a failing dependency is tried before the process ends.",
    )
    admin_host: str = Field("127.0.0.1", description="Address of /live, /ready and /metrics.")
    admin_port: int = Field(
        6066, ge=0, le=65535, description="Port of /live, /ready and /metrics; 0 takes a free one."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged.")
    log_format: Literal["auto", "json", "human"] = Field(
        "auto", description="JSON lines, lines for people, or by whether it is a terminal."
    )

    @field_validator("bootstrap")
    @classmethod
    def _has_ports(cls, value: str) -> str:
        for broker in value.split(","):
            _, colon, port = broker.strip().rpartition(":")
            if not colon or not port.isdigit():
                raise ValueError(f"{broker!r} is not host:port")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flag over environment over file."""
        file = TomlConfigSettingsSource(settings_cls, settings_file())
        return init_settings, env_settings, _KafkaEnvironment(settings_cls), file

    def clients(self) -> dict[str, str]:
        """What every Kafka client is given."""
        return {"bootstrap.servers": self.bootstrap, **self.kafka}

    def shown(self) -> dict[str, Any]:
        """The settings with secrets left out, for people and logs."""
        shown = self.model_dump(mode="json")
        shown["kafka"] = {name: "***" if _is_secret(name) else value for name, value in self.kafka.items()}
        return shown

    def __repr__(self) -> str:
        return f"Settings({self.shown()})"

    __str__ = __repr__


class _KafkaEnvironment(PydanticBaseSettingsSource):
    """``HEADRACE_KAFKA_SECURITY_PROTOCOL`` as ``kafka["security.protocol"]``."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """Not by field: the names are librdkafka's."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {
            name.removeprefix(_KAFKA_PREFIX).lower().replace("_", "."): value
            for name, value in os.environ.items()
            if name.startswith(_KAFKA_PREFIX)
        }
        return {"kafka": found} if found else {}


def settings_file() -> Path | None:
    """``$HEADRACE_SETTINGS``, or ``headrace.toml`` in the working folder if it is there."""
    named = os.environ.get("HEADRACE_SETTINGS")
    if named:
        return Path(named)
    here = Path("headrace.toml")
    return here if here.exists() else None


def load_settings(flags: Mapping[str, Any]) -> Settings:
    """The settings in force; raises `Misdeclared` naming the setting, its value and the fix."""
    file = settings_file()
    if file is not None and not file.exists():
        raise Misdeclared(f"HEADRACE_SETTINGS names {str(file)!r}, which is not there")
    for name in os.environ:
        known = name.removeprefix(PREFIX).lower() in {*Settings.model_fields, *_OTHERS}
        if name.startswith(PREFIX) and not name.startswith(_KAFKA_PREFIX) and not known:
            fields = [PREFIX + field.upper() for field in Settings.model_fields]
            raise Misdeclared(f"There is no setting {name}; {did_you_mean(name, fields)}")
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None and value != {}})
    except ValidationError as error:
        raise Misdeclared("; ".join(_say(problem) for problem in error.errors())) from None
    except tomllib.TOMLDecodeError as error:
        raise Misdeclared(f"{file} is no TOML: {error}") from error


def _say(problem: Mapping[str, Any]) -> str:
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"There is no setting {name!r}; {did_you_mean(name, Settings.model_fields)}"
    expected = problem["msg"]
    if problem["type"].startswith("time_delta"):
        expected = "it is no duration; write 500ms, 10s, 5m, 1h or ISO 8601 such as PT0.5S"
    given = problem["input"]
    shown = f"{given.total_seconds():g} s" if isinstance(given, timedelta) else repr(given)
    shown = "***" if _is_secret(name) else shown
    return f"Setting {name!r} is {shown}: {expected}"


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRETS)
