"""Generate ``deploy/iam/`` and ``docs/iam.md`` from what the activities call.

``python -m scripts.generate_iam`` writes the project's own files. With ``--out`` it writes the policies alone, for one
account, region or another partition:

    python -m scripts.generate_iam --out /tmp/policies --partition aws-us-gov --account 111122223333
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from scripts.iam.page import PAGE, page
from scripts.iam.policies import Parameters, WrongGrantsError, documents
from scripts.iam.roles import CODEC_KEY, trusts
from scripts.iam.source import PROJECT, UnknownServiceError

FOLDER = PROJECT / "deploy" / "iam"


def generated() -> dict[Path, str]:
    """Every file that is generated, with its content. Raises WrongGrantsError and UnknownServiceError."""
    files = policy_files(FOLDER, Parameters())
    files |= {FOLDER / "trust" / f"{name}.json": _json(document) for name, document in trusts().items()}
    files[FOLDER / "codec-key" / "codec-key.json"] = _json(CODEC_KEY)
    files[PAGE] = page()
    return files


def policy_files(folder: Path, where: Parameters) -> dict[Path, str]:
    return {folder / f"{name}.json": _json(document) for name, document in documents(where).items()}


def _json(document: Any) -> str:
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.generate_iam", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the policies; without it the project's own files")
    parser.add_argument("--partition", default="aws", choices=["aws", "aws-cn", "aws-us-gov"])
    parser.add_argument("--account", default="*", help="the account's number; * for the one that the role is in")
    parser.add_argument("--region", default="*", help="the only region that is allowed; * for all")
    options = parser.parse_args()
    where = Parameters(options.partition, options.account, options.region)
    if options.out is None and where != Parameters():
        parser.error("--partition, --account and --region go with --out")
    try:
        files = generated() if options.out is None else policy_files(options.out, where)
    except (WrongGrantsError, UnknownServiceError) as error:
        sys.exit(str(error))
    folder = options.out or FOLDER
    for stale in set(folder.glob("*.json")) - set(files):
        if options.out is None:
            stale.unlink()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        print(path)


if __name__ == "__main__":
    main()
