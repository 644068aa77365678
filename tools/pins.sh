#!/usr/bin/env bash
# Write requirements/*.txt: the exact versions that a fresh environment resolves pyproject.toml to.
#
#   tools/pins.sh PYTHON           run with the oldest supported Python, so that pins fit all of them
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:?usage: tools/pins.sh PYTHON}
# A newer torch is taken on purpose, by this line: figures and loss curves were measured with it.
held='torch==2.13.0'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

frozen() {
    "$work/venv/bin/python" -m pip --disable-pip-version-check freeze --exclude-editable
}

# What every kind of machine can install: without the local part of a version, which no index serves,
# and without the CUDA packages that torch itself pins, where it wants them.
portable() {
    frozen | sed 's/+.*//' | grep -vE '^(cuda-|nvidia-|triton==)'
}

install() {
    "$work/venv/bin/python" -m pip --disable-pip-version-check --quiet install "$@"
}

"$python" -m venv "$work/venv"
install 'hatchling>=1.27,<2' 'editables>=0.5,<1'
frozen >"$work/build"
install -e '.[tasks]'
frozen | grep -vxF -f "$work/build" >"$work/run"
install -e '.[dev]'
frozen | grep -vxF -f "$work/build" | grep -vxF -f "$work/run" >"$work/dev"
cat "$work/build" "$work/run" "$work/dev" >"$work/before"
install -e '.[bench]'
frozen | grep -vxF -f "$work/before" >"$work/bench"
rm -rf "$work/venv"
"$python" -m venv "$work/venv"
install -r "$work/before" -e '.[weights]' "$held"
portable | grep -vxF -f "$work/before" >"$work/weights"
install -e '.[local-model]' "$held"
portable | grep -vxF -f "$work/before" | grep -vxF -f "$work/weights" >"$work/model"

{
    echo "# What builds the package. Made by \`make pins\`."
    cat "$work/build"
} >requirements/build.txt
{
    echo "# What \`daydream\` runs with: the core and the tasks extra. Made by \`make pins\`."
    cat "$work/run"
} >requirements/run.txt
{
    echo "# What the gate runs with, on top of run.txt. Made by \`make pins\`."
    echo "-r run.txt"
    cat "$work/dev"
} >requirements/dev.txt
{
    echo "# The packages that replay is measured against, on top of run.txt. Made by \`make pins\`."
    echo "-r run.txt"
    cat "$work/bench"
} >requirements/bench.txt
{
    echo "# What trains and generates, on top of dev.txt. Made by \`make pins\`."
    echo "-r dev.txt"
    cat "$work/weights"
} >requirements/weights.txt
{
    echo "# What serves the packaged small model, on top of weights.txt. Made by \`make pins\`."
    echo "-r weights.txt"
    cat "$work/model"
} >requirements/model.txt
