# The decision service with its packages and machine code. It runs as a user of its own and writes to
# /var/lib/slotwise only, so the root file system may be read-only. See docs/deployment.md.
FROM python:3.13-slim AS build
WORKDIR /usr/src/slotwise
COPY pyproject.toml README.md LICENSE ./
COPY experiments ./experiments
COPY src ./src
RUN python -m venv /srv/slotwise
RUN /srv/slotwise/bin/pip install --no-cache-dir '.[postgresql]'
# Machine code for any processor of this architecture, not only for the one that builds the image.
ENV NUMBA_CACHE_DIR=/srv/slotwise/machine-code NUMBA_CPU_NAME=generic
RUN /srv/slotwise/bin/slotwise warm-up paced-bayes
# Only their owner can read the files of a cache; the service runs as another user.
RUN chmod -R a+rX /srv/slotwise/machine-code

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/slotwise slotwise
RUN install -d -o slotwise -m 700 /var/lib/slotwise
COPY --from=build /srv/slotwise /srv/slotwise
ENV PATH=/srv/slotwise/bin:/usr/local/bin:/usr/bin:/bin NUMBA_CACHE_DIR=/srv/slotwise/machine-code NUMBA_CPU_NAME=generic
ENV PYTHONDONTWRITEBYTECODE=1 SLOTWISE_HOST=0.0.0.0 SLOTWISE_STORE=sqlite:////var/lib/slotwise/slotwise.db
USER slotwise
WORKDIR /var/lib/slotwise
VOLUME /var/lib/slotwise
EXPOSE 8460
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8460/healthz', timeout=2)"]
ENTRYPOINT ["slotwise"]
CMD ["serve"]
