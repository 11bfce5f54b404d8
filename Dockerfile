# Headway in a container: server, loop and page, as a user without rights.
#
#   docker build -t headway --build-arg HEADWAY_COMMIT=$(git rev-parse --short=7 HEAD) .
#   docker run --rm -p 127.0.0.1:8765:8765 -v headway:/project headway
#
# It listens on every address of the container, so every request needs a key; make one with
#   docker exec CONTAINER headway -C /project keys add agent --scope decide

# -- the page
FROM node:22-slim AS page
WORKDIR /build/dashboard
COPY dashboard/package.json dashboard/package-lock.json ./
RUN npm ci --omit=dev --no-progress
COPY dashboard/ ./
RUN npm run --silent build

# -- the package and what it needs, in an environment of its own
FROM python:3.11-slim AS package
WORKDIR /build
RUN python -m venv /venv
ARG HEADWAY_COMMIT=""
COPY constraints.txt hatch_build.py pyproject.toml README.md LICENSE ./
COPY src/ src/
COPY --from=page /build/src/headway/serve/static/ src/headway/serve/static/
RUN /venv/bin/pip install --no-cache-dir -c constraints.txt '.[text,parquet,plot]'

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
