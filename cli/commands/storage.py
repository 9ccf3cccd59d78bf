"""``instantstart storage``: S3 buckets and file systems that pods mount, and what is in the buckets."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import Command, file_option, output_option, start_options
from cli.spec import Body, put, read

SETTINGS = ("claim", "namespace", "bucket", "prefix", "read_only", "allow_foreign_bucket")
NEW_FILE_SYSTEM = ("capacity_gib", "deployment_type", "throughput", "availability_zone", "subnet_id")
MOST_LISTED = 1000


def claim_options(command: Command) -> Command:
    """What a claim is made of; ``put_claim`` puts it into a body."""
    for option in (
        click.option(
            "--allow-foreign-bucket",
            is_flag=True,
            default=None,
            help="Mount the bucket although it is another account's, or cannot be looked at.",
        ),
        click.option("--read-only", is_flag=True, default=None),
        click.option("--prefix", help="Mount only keys under this prefix; ends in /."),
        click.option("--bucket", help="An existing bucket.  [default: the cluster's own]"),
        click.option("--namespace"),
        click.option("--claim", help="Name of the PersistentVolumeClaim."),
    ):
        command = option(command)
    return command


def put_claim(body: Body, choices: Body) -> None:
    for name in SETTINGS:
        put(body, name, choices.pop(name))


@click.group()
def storage() -> None:
    """Mount S3 buckets and FSx file systems, and see which are mounted and what the buckets hold."""


@storage.command("create")
@click.argument("tag")
@file_option("The claim's spec")
@claim_options
@start_options
def create(tag: str, file: TextIO | None, **choices: Any) -> int:
    """Give pods of the cluster TAG an S3 bucket, through a claim that they mount."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put_claim(body, choices)
    return begin(cluster_path(tag, "storage"), body, **choices)


@storage.command("create-fsx")
@click.argument("tag")
@file_option("The claim's spec")
@click.option("--claim", help="Name of the PersistentVolumeClaim.  [default: fsx-claim]")
@click.option("--namespace")
@click.option("--file-system", "file_system_id", metavar="ID", help="Mount this one, instead of making one.")
@click.option("--new", is_flag=True, help="Make a file system. It costs until it is deleted.")
@click.option("--capacity-gib", type=int, help="Of a new one: 1200, or a multiple of 2400.  [default: 1200]")
@click.option("--deployment-type", type=click.Choice(["PERSISTENT_2", "SCRATCH_2"]), help="Of a new one.")
@click.option("--throughput", type=int, help="Of a new PERSISTENT_2: MB/s for each TiB.  [default: 125]")
@click.option("--zone", "availability_zone", help="Of a new one.  [default: that of most nodes]")
@click.option("--subnet", "subnet_id", help="Of a new one.  [default: the nodes' own]")
@click.option("--mount-option", "mount_options", multiple=True, help="May be repeated.  [default: noatime, flock]")
@click.option("--read-only", is_flag=True, default=None)
@start_options
def create_fsx(tag: str, file: TextIO | None, new: bool, **choices: Any) -> int:
    """Give pods of the cluster TAG a file system of FSx for Lustre, through a claim that they mount."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    for name in ("claim", "namespace", "file_system_id", "read_only"):
        put(body, name, choices.pop(name))
    put(body, "mount_options", list(choices.pop("mount_options")) or None)
    made: Body = dict(body.get("create") or {})
    for name in NEW_FILE_SYSTEM:
        put(made, name, choices.pop(name))
    if new or made:
        body["create"] = made
    return begin(cluster_path(tag, "fsx-storage"), body, **choices)


@storage.command("delete")
@click.argument("tag")
@click.argument("claim")
@click.option("--namespace", help="The claim's.  [default: default]")
@click.option(
    "--delete-file-system",
    is_flag=True,
    help="Delete its FSx file system with all data, too: one that was made for this cluster.",
)
@click.option("--foreign", is_flag=True, help="The claim goes although others made it.")
@start_options
def delete(tag: str, claim: str, delete_file_system: bool, foreign: bool, **choices: Any) -> int:
    """Delete the claim CLAIM of the cluster TAG and its volume. What it holds stays, unless told otherwise."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    path = cluster_path(tag, f"storage/{quote(claim, safe='')}")
    flags = {"delete_file_system": delete_file_system, "foreign": foreign}
    given: dict[str, Any] = {name: "true" for name, flag in flags.items() if flag}
    return begin(path, None, method="DELETE", **given, **choices)


@storage.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List the claims on S3 and FSx of the cluster TAG, others' too."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "storage")), _claim_lines)


@storage.command("defaults")
@click.argument("tag")
@output_option
def defaults(tag: str, output: str) -> None:
    """Show what `storage create` for the cluster TAG would use by itself, and what of it exists."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "storage/defaults")), _default_lines)


@storage.command("contents")
@click.argument("tag")
@click.argument("claim")
@click.argument("prefix", default="")
@click.option("--namespace", help="The claim's.  [default: default]")
@click.option(
    "--limit", type=click.IntRange(1), default=MOST_LISTED, show_default=True, help="At most so many keys and prefixes."
)
@click.option("--page-token", help="Go on where a list with this next_page_token ended.")
@output_option
def contents(tag: str, claim: str, prefix: str, limit: int, output: str, **query: str | None) -> None:
    """List what lies under PREFIX in the claim CLAIM of the cluster TAG, one level deep, by its paths in the mount."""
    from cli.gateway import cluster_path
    from cli.output import emit

    path = cluster_path(tag, f"storage/{quote(claim, safe='')}/contents")
    emit(output, _collected(path, limit, prefix=prefix, **query), _content_lines)


def _collected(path: str, limit: int, **query: Any) -> dict[str, Any]:
    """Pages as one, of at most ``limit`` entries; with the token of the next page where there is more."""
    from cli.gateway import PAGE_SIZE, connect

    gateway = connect()
    objects: list[Any] = []
    prefixes: list[Any] = []
    while True:
        left = limit - len(objects) - len(prefixes)
        page: dict[str, Any] = gateway.get(path, page_size=min(left, PAGE_SIZE), **query)
        objects += page["objects"]
        prefixes += page["common_prefixes"]
        query["page_token"] = page.get("next_page_token")
        if query["page_token"] is None or len(objects) + len(prefixes) >= limit:
            return {**page, "objects": objects, "common_prefixes": prefixes}


def _claim_lines(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, plain

    headers = ("NAMESPACE", "CLAIM", "PHASE", "ACCESS", "MADE BY", "MOUNTS")
    rows = (
        (
            each["namespace"],
            each["claim"],
            each["phase"],
            "read" if each["read_only"] else "read, write",
            "instantstart" if each["managed"] else "others",
            plain(_place(each)),
        )
        for each in answer["claims"]
    )
    recorded = [] if answer["live"] else ["", "As last recorded: the cluster did not answer in time."]
    return [*columns(headers, rows), *recorded]


def _default_lines(answer: dict[str, Any]) -> list[str]:
    from cli.output import pairs

    def known(exists: bool) -> str:
        return "exists" if exists else "does not exist yet"

    return pairs(
        [
            ("claim", f"{answer['namespace']}/{answer['claim']} ({known(answer['claim_exists'])})"),
            ("bucket", f"s3://{answer['bucket']} ({known(answer['bucket_exists'])})"),
            ("region", answer["region"]),
        ]
    )


def _content_lines(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns, plain, size

    deeper = [("-", "-", plain(each)) for each in answer["common_prefixes"]]
    objects = [(size(each["size"]), age(each["modified"]), plain(each["key"])) for each in answer["objects"]]
    lines = [plain(f"{_place(answer['claim'])}{answer['prefix']}"), ""]
    lines += columns(("SIZE", "AGE", "KEY"), [*deeper, *objects])
    if answer.get("next_page_token"):
        lines += ["", "There is more: raise --limit, or go deeper with a PREFIX."]
    return lines


def _place(claim: dict[str, Any]) -> str:
    if claim["bucket"]:
        return f"s3://{claim['bucket']}/{claim.get('prefix') or ''}"
    return f"FSx {claim['file_system']}" if claim.get("file_system") else ""
