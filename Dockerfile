# Headway in a container: server, loop and page, from the wheel, as a user without rights. Unrun: no image was built yet;
# tests/loop/test_container.py checks the text, the commands and the health check.
#
#   make wheel                      or put a released wheel into dist/
#   docker build -t headway .
#   docker run --rm -p 127.0.0.1:8765:8765 -v headway:/project headway
#
# It listens on every address of the container, so every request needs a key; make one with
#   docker exec CONTAINER headway -C /project keys add agent --scope decide

# -- the wheel and what it needs, in an environment of its own
FROM python:3.11-slim AS package
WORKDIR /build
RUN python -m venv /venv
COPY constraints.txt dist/headway-*.whl ./
RUN /venv/bin/pip install --no-cache-dir -c constraints.txt "$(ls headway-*.whl)[text,parquet,plot]"

# -- what runs
FROM python:3.11-slim
RUN useradd --create-home --uid 10001 headway && mkdir /project && chown headway:headway /project
COPY --from=package /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
USER headway
WORKDIR /project
VOLUME /project
EXPOSE 8765
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
  CMD ["python", "-P", "-m", "headway.loop.health", "/project"]
CMD ["headway", "-C", "/project", "up", "--host", "0.0.0.0", "--port", "8765"]
