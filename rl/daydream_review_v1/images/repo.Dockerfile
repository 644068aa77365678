# syntax=docker/dockerfile:1
# One repository at the head of one pull request. Built by build_images.py, whose context holds
# mirror.git (the history of head and base, nothing later) and setup.sh.
ARG BASE_IMAGE=daydream-rl/base:latest
FROM ${BASE_IMAGE}

SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG HEAD_SHA
ARG BASE_SHA
ARG TEST_COMMAND

# origin is a mirror inside the image: a push stays here and needs no credentials. pristine.git is
# what the tests are run on again; only root can write there.
COPY mirror.git /srv/mirror.git
RUN cp -a /srv/mirror.git /srv/pristine.git \
 && chown -R agent:agent /srv/mirror.git && chmod -R go-w /srv/pristine.git \
 && git clone --quiet /srv/mirror.git /work/repo \
 && cd /work/repo \
 && git checkout --quiet --detach "${HEAD_SHA:?}" \
 && git cat-file -e "${BASE_SHA:?}^{commit}"

WORKDIR /work/repo
COPY setup.sh /srv/setup.sh
RUN /bin/sh /srv/setup.sh
RUN cp -a /work/repo /srv/verify/repo && chown -R agent:agent /work/repo \
 && [ -z "$(git status --porcelain)" ] \
 && [ "$(git rev-parse HEAD)" = "$HEAD_SHA" ]

# The last layer: a repository whose tests fail has no image.
RUN run-as-agent /bin/sh -c "${TEST_COMMAND:?}" 2>&1 | tee /srv/baseline.log
