"""``headrace warm``: compile ahead."""

import time

import click


@click.command("warm")
def command() -> None:
    """Compile the engine's kernels into the cache, so that the first worker starts at once."""
    started = time.monotonic()
    import features.codecs.template  # noqa: PLC0415 - importing is compiling
    import features.replay  # noqa: F401, PLC0415
    import models.binding  # noqa: F401, PLC0415

    click.echo(f"kernels ready after {time.monotonic() - started:.1f} s")
