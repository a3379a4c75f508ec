"""The app for Faust's own command line: ``HEADRACE_PIPELINE=flights faust -A workers.faust_app worker``."""

import os
import sys

from features.errors import HeadraceError, Misdeclared
from workers.app import worker_app

_pipeline = os.environ.get("HEADRACE_PIPELINE")
try:
    if not _pipeline:
        raise Misdeclared(
            "HEADRACE_PIPELINE is not set; it names the pipeline for faust -A workers.faust_app"
        )
    app = worker_app(_pipeline)
except HeadraceError as error:  # Faust shows nothing but a traceback
    sys.exit(f"headrace: {error}")
