from datetime import timedelta
from pathlib import Path

import pytest

from features.errors import Misdeclared
from workers.settings import load_settings


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_flag_goes_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.toml").write_text(
        'bootstrap = "file:1"\nregistry = "from-file"\nslot = "f"\ndrain_timeout = 1.5\n'
    )
    monkeypatch.setenv("HEADRACE_REGISTRY", "from-environment")
    monkeypatch.setenv("HEADRACE_SLOT", "e")
    settings = load_settings({"slot": "flag", "model": None})
    assert (settings.bootstrap, settings.registry, settings.slot) == ("file:1", "from-environment", "flag")
    assert settings.drain_timeout == timedelta(seconds=1.5)


def test_librdkafka_settings_pass_through_and_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headrace.toml").write_text(
        '[kafka]\n"client.id" = "file"\n"linger.ms" = 3\ncheck.crcs = true\nconsumer.fetch.min.bytes = 1\n'
    )
    monkeypatch.setenv("HEADRACE_KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("HEADRACE_KAFKA_CLIENT_ID", "environment")
    settings = load_settings({"kafka": {"ssl.ca.location": "ca.pem"}})
    assert settings.clients() == {
        "bootstrap.servers": "127.0.0.1:9092",
        "client.id": "environment",
        "linger.ms": "3",
        "check.crcs": "true",
        "consumer.fetch.min.bytes": "1",
        "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
    }


def test_secrets_are_not_shown() -> None:
    settings = load_settings({"kafka": {"sasl.password": "hunter2", "sasl.username": "me"}})
    assert "hunter2" not in f"{settings!r} {settings} {settings.shown()}"
    assert settings.shown()["kafka"]["sasl.username"] == "me"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"delivery": "at_most_once"}, "Setting 'delivery' is 'at_most_once'"),
        ({"bootstrap": "nowhere"}, "'nowhere' is not host:port"),
        ({"slice_records": 0}, "Setting 'slice_records' is 0"),
        (
            {"commit_interval": "soon"},
            "Setting 'commit_interval' is 'soon': it is no duration; write 500ms, 10s,",
        ),
        ({"retry_for": "0"}, "Setting 'retry_for' is 0 s"),
        ({"bootstrp": "a:1"}, "There is no setting 'bootstrp'; did you mean 'bootstrap'?"),
    ],
)
def test_a_setting_that_cant_be_right_is_named_with_the_fix(flags: dict[str, object], message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        load_settings(flags)
    assert message in str(refused.value)


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAPS", "a:1")
    with pytest.raises(
        Misdeclared, match="There is no setting HEADRACE_BOOTSTRAPS; did you mean 'HEADRACE_BOOTSTRAP'"
    ):
        load_settings({})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.5", 0.5), ("500ms", 0.5), ("10s", 10), ("5 m", 300), ("1h", 3600), ("2d", 172_800), ("PT0.5S", 0.5), (1.5, 1.5)],
)  # fmt: skip
def test_a_duration_is_seconds_or_has_a_unit(text: object, seconds: float) -> None:
    assert load_settings({"stuck_after": "1m", "drain_timeout": text}).drain_timeout == timedelta(
        seconds=seconds
    )
