#!/usr/bin/env bash
# Make the virtual environment VENV from requirements/SET.txt, with Daydream itself installed editable.
#
#   tools/setup.sh VENV SET        SET is run, dev, bench, weights or model; PYTHON names an interpreter to prefer
#
# Does nothing when VENV is up to date with SET. The first Python from 3.11 on is taken. A missing
# venv module is installed with apt when this runs as root, and named otherwise; so is bubblewrap,
# which the tests need and which isolates evaluations.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:?usage: tools/setup.sh VENV SET}
set_name=${2:?usage: tools/setup.sh VENV SET}
stamp="$venv/.installed-$set_name"
inputs=(pyproject.toml requirements/build.txt requirements/run.txt "requirements/$set_name.txt")

fail() {
    echo "setup: $*" >&2
    exit 3
}

sums() {
    sha256sum "${inputs[@]}"
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer found (python3 is $(python3 --version 2>&1 || true));" \
        "install one, or name it: make run PYTHON=/path/to/python3.12"
}

can_install() {
    [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null
}

install_package() {
    echo "setup: installing $1"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null
}

want_bubblewrap() {
    if [[ $(uname -s) != Linux ]] || command -v bwrap >/dev/null; then
        return
    fi
    if ! can_install || ! install_package bubblewrap; then
        echo "setup: bubblewrap is missing, so programs run in the weaker sandbox and its tests" \
            "fail; install it, for example: sudo apt-get install bubblewrap" >&2
    fi
}

want_compiler() {
    if [[ $set_name != dev ]] || command -v g++ >/dev/null || command -v clang++ >/dev/null; then
        return
    fi
    if ! can_install || ! install_package g++; then
        echo "setup: a C++ compiler is missing, so the tests of compiled solvers fail; install" \
            "one, for example: sudo apt-get install g++" >&2
    fi
}

need_venv_module() {
    local python=$1 package
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        return
    fi
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if can_install; then
        install_package "$package" ||
            fail "$package cannot be installed; install the venv module of $python by hand"
    else
        fail "$python has no venv module; install it, for example: sudo apt-get install $package"
    fi
}

if [[ -f $stamp ]] && [[ "$(sums)" == "$(cat "$stamp")" ]]; then
    exit 0
fi
if ! "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$(find_python)
    need_venv_module "$python"
    echo "setup: creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
want_bubblewrap
want_compiler
echo "setup: installing requirements/$set_name.txt"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install -r requirements/build.txt -r "requirements/$set_name.txt"
"${pip[@]}" install --no-deps --no-build-isolation -e .
sums >"$stamp"
