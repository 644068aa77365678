"""``python -m daydream_review_v1 COMMAND``: report, doctor, check-config."""

import argparse
import sys
from pathlib import Path

from daydream_review_v1 import check_config, doctor, report
from daydream_review_v1.backends import BACKENDS


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m daydream_review_v1")
    commands = parser.add_subparsers(dest="command", required=True)
    reporting = commands.add_parser("report", help="sum up evaluations")
    reporting.add_argument("outputs", nargs="+", type=Path, help="output folders of eval")
    reporting.add_argument("--json", action="store_true")
    probing = commands.add_parser("doctor", help="try the server of a policy")
    probing.add_argument("--base-url", required=True)
    probing.add_argument("-m", "--model", required=True)
    probing.add_argument("--backend", choices=BACKENDS, default="claude")
    probing.add_argument("--key-var", default="PRIME_API_KEY", help="variable with the key")
    checking = commands.add_parser("check-config", help="check a training configuration")
    checking.add_argument("config", type=Path)
    checking.add_argument("--prime-rl", type=Path, help="a checkout of prime-rl for its dry run")
    checking.add_argument("--model", help="the policy")
    checking.add_argument("--python", help="interpreter for the dry run")
    options = parser.parse_args(arguments)
    if options.command == "report":
        return report.main(options.outputs, as_json=options.json)
    if options.command == "doctor":
        return doctor.main(options.base_url, options.model, options.backend, options.key_var)
    return check_config.main(options.config, options.prime_rl, options.model, options.python)


if __name__ == "__main__":
    sys.exit(main())
