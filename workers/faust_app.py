"""The app for Faust's own command line: ``HEADRACE_PIPELINE=flights faust -A workers.faust_app worker``."""

import os

from features.errors import Misdeclared
from workers.app import worker_app

_pipeline = os.environ.get("HEADRACE_PIPELINE")
if _pipeline is None:
    raise Misdeclared("HEADRACE_PIPELINE names the pipeline for faust -A workers.faust_app; it is not set")

app = worker_app(_pipeline)
