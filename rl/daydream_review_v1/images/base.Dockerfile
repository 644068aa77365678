# syntax=docker/dockerfile:1
# Daydream and the agent programs. Built by build_images.py, whose context holds dist/ with one wheel.
# Everything fetched is pinned and checked before it runs. amd64 and arm64.
FROM ghcr.io/astral-sh/uv:0.11.29@sha256:eb2843a1e56fd9e30c7276ce1a52cba86e64c7b385f5e3279a0e08e02dd058fc AS uv
FROM python:3.12.13-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36

SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

# bubblewrap is what Daydream isolates commands with; setpriv (util-linux) drops the user.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
        bubblewrap ca-certificates curl git gnupg procps util-linux xz-utils \
 && rm -rf /var/lib/apt/lists/*

COPY --from=uv /uv /uvx /usr/local/bin/
RUN uv --version

# agent works in the checkout; verifier runs the tests again where agent cannot write.
ENV HOME=/rollout \
    PATH=/rollout/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
    PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --home-dir /rollout --shell /bin/bash agent \
 && useradd --uid 10002 --home-dir /nonexistent --shell /bin/bash verifier \
 && mkdir -p /rollout/archive /rollout/.local/bin /work /srv/verify \
 && git config --system safe.directory '*' \
 && git config --system user.name Daydream \
 && git config --system user.email daydream@rollout.invalid \
 && printf '%s\n' '#!/bin/sh' \
        'exec setpriv --reuid=agent --regid=agent --clear-groups --no-new-privs -- "$@"' \
        > /usr/local/bin/run-as-agent \
 && printf '%s\n' '#!/bin/sh' \
        'exec setpriv --reuid=verifier --regid=verifier --clear-groups --no-new-privs -- "$@"' \
        > /usr/local/bin/run-as-verifier \
 && chmod 0755 /usr/local/bin/run-as-agent /usr/local/bin/run-as-verifier

ARG DAYDREAM_WHEEL
COPY dist/ /tmp/dist/
RUN uv pip install --system "/tmp/dist/${DAYDREAM_WHEEL:?give the name of the wheel in dist/}" \
 && rm -rf /tmp/dist \
 && daydream --version

ARG TARGETARCH

# Codex: the archive is checked against a pinned digest.
ARG INSTALL_CODEX=1
ARG CODEX_VERSION=0.145.0
RUN if [ "$INSTALL_CODEX" = 1 ]; then \
        case "$TARGETARCH" in \
            amd64) triple=x86_64-unknown-linux-musl; \
                sum=bfaf13c9ba34f2ad764e4a916c49cf7177aeba329cf0f719e2227566fc8d662a ;; \
            arm64) triple=aarch64-unknown-linux-musl; \
                sum=d384f90bc842450b42bd675feef06a12a46a3b1ca97efcb22566b270e4a11227 ;; \
            *) echo "no Codex for architecture '$TARGETARCH'" >&2; exit 1 ;; \
        esac; \
        curl --fail --silent --show-error --location --output /tmp/codex.tar.gz \
            "https://github.com/openai/codex/releases/download/rust-v${CODEX_VERSION}/codex-${triple}.tar.gz"; \
        echo "$sum  /tmp/codex.tar.gz" | sha256sum --check --strict -; \
        tar --extract --gzip --file /tmp/codex.tar.gz --directory /tmp "codex-${triple}"; \
        install -m 0755 "/tmp/codex-${triple}" /rollout/.local/bin/codex; \
        rm -f /tmp/codex*; \
        codex --version; \
    fi

# Claude Code: key by fingerprint, manifest by signature, program by the digest in the manifest.
ARG INSTALL_CLAUDE=1
ARG CLAUDE_CODE_VERSION=2.1.214
ARG CLAUDE_KEY=31DDDE24DDFAB679F42D7BD2BAA929FF1A7ECACE
RUN if [ "$INSTALL_CLAUDE" = 1 ]; then \
        case "$TARGETARCH" in \
            amd64) platform=linux-x64 ;; \
            arm64) platform=linux-arm64 ;; \
            *) echo "no Claude Code for architecture '$TARGETARCH'" >&2; exit 1 ;; \
        esac; \
        export GNUPGHOME=/tmp/gnupg; mkdir -m 0700 "$GNUPGHOME"; cd "$GNUPGHOME"; \
        site=https://downloads.claude.ai; release="$site/claude-code-releases/$CLAUDE_CODE_VERSION"; \
        fetch() { curl --fail --silent --show-error --location --output "$1" "$2"; }; \
        fetch key.asc "$site/keys/claude-code.asc"; \
        fetch manifest.json "$release/manifest.json"; \
        fetch manifest.json.sig "$release/manifest.json.sig"; \
        gpg --batch --quiet --import key.asc; \
        gpg --batch --with-colons --fingerprint | grep -qx "fpr:::::::::$CLAUDE_KEY:"; \
        gpg --batch --status-fd 1 --verify manifest.json.sig manifest.json > status; \
        grep -q "^\[GNUPG:\] VALIDSIG .*$CLAUDE_KEY" status; \
        sum="$(python3 -c 'import json,sys; print(json.load(open("manifest.json"))["platforms"][sys.argv[1]]["checksum"])' "$platform")"; \
        [[ "$sum" =~ ^[0-9a-f]{64}$ ]]; \
        fetch claude "$release/$platform/claude"; \
        echo "$sum  claude" | sha256sum --check --strict -; \
        install -m 0755 claude /rollout/.local/bin/claude; \
        cd /; rm -rf "$GNUPGHOME"; \
        claude --version; \
    fi

# Pi on Node. Pi asks for Node 22.19 or newer and works on the pinned one with a warning of npm.
ARG INSTALL_PI=1
ARG NODE_VERSION=22.17.1
ARG PI_VERSION=0.82.1
ARG PI_SHA256=8343ab95cbab5766f2f5d48844df8db13e772ead2e2976166cbb820a29dacb7d
RUN if [ "$INSTALL_PI" = 1 ]; then \
        case "$TARGETARCH" in \
            amd64) arch=x64; sum=cfb6ac0cf339825fe36efd1f18a79016b02aca19fbfa6c9547c57e27dc09f6ea ;; \
            arm64) arch=arm64; sum=f53510706998cf044f634190416f0588e7e1937aecea938768952e0f0ac1f41b ;; \
            *) echo "no Node.js for architecture '$TARGETARCH'" >&2; exit 1 ;; \
        esac; \
        name="node-v${NODE_VERSION}-linux-${arch}"; \
        curl --fail --silent --show-error --location --output /tmp/node.tar.xz \
            "https://nodejs.org/dist/v${NODE_VERSION}/${name}.tar.xz"; \
        echo "$sum  /tmp/node.tar.xz" | sha256sum --check --strict -; \
        tar --extract --xz --file /tmp/node.tar.xz --directory /usr/local --strip-components 1; \
        rm /tmp/node.tar.xz; \
        cd /tmp; npm pack --silent "@earendil-works/pi-coding-agent@${PI_VERSION}" > name; \
        archive="/tmp/$(cat name)"; \
        echo "$PI_SHA256  $archive" | sha256sum --check --strict -; \
        npm install --global --no-audit --no-fund --prefix /rollout/.local "$archive"; \
        rm -rf "$archive" name /root/.npm /rollout/.npm; \
        pi --version; \
    fi

RUN chown -R agent:agent /rollout && chmod 0755 /rollout && chmod 0711 /srv /srv/verify
WORKDIR /work
