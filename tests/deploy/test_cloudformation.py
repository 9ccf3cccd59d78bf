"""The host on AWS is shut in, keeps what must be kept, and runs nothing that was not named by its checksum."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cloudformation.build import SERVICES, TEMPLATE, template
from deploy.cloudformation.bundle import SCRIPTS, bundle
from tests.deploy.composed import ROOT, composed


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short functions, as ``{"Fn": value}``."""


def _function(loader: Loader, tag: str, node: yaml.Node) -> dict[str, Any]:
    match node:
        case yaml.ScalarNode():
            return {tag: loader.construct_scalar(node)}
        case yaml.SequenceNode():
            return {tag: loader.construct_sequence(node, deep=True)}
    raise TypeError(f"{tag} of a mapping")


Loader.add_multi_constructor("!", _function)


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    read: dict[str, Any] = yaml.load(TEMPLATE.read_text(), Loader)
    return read


@pytest.fixture(scope="module")
def resources(written: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = written["Resources"]
    return found


def of_type(resources: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: each["Properties"] for name, each in resources.items() if each["Type"] == kind}


def test_it_is_what_build_makes_of_its_source_and_the_policies() -> None:
    assert TEMPLATE.read_text() == template(), "run python deploy/cloudformation/build.py"


def test_cfn_lint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("cfn-lint")
    run = subprocess.run([str(program), "--include-checks", "I", "--", str(TEMPLATE)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_it_is_small_enough_to_be_sent_as_it_is() -> None:
    assert len(TEMPLATE.read_bytes()) <= 51_200


def test_nothing_comes_in_from_anywhere(resources: dict[str, Any]) -> None:
    groups = of_type(resources, "AWS::EC2::SecurityGroup")
    assert groups["SecurityGroup"]["SecurityGroupIngress"] == []
    for group in groups.values():
        for rule in group["SecurityGroupIngress"]:
            assert "CidrIp" not in rule
            assert rule["SourceSecurityGroupId"] == {"Ref": "SecurityGroup"}
    assert not of_type(resources, "AWS::EC2::SecurityGroupIngress")


def test_only_https_goes_out(resources: dict[str, Any]) -> None:
    (rule,) = of_type(resources, "AWS::EC2::SecurityGroup")["SecurityGroup"]["SecurityGroupEgress"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)


def test_the_host_has_no_public_address_and_its_credentials_need_a_session(resources: dict[str, Any]) -> None:
    (instance,) = of_type(resources, "AWS::EC2::Instance").values()
    (interface,) = instance["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is False
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 2, "one for Docker's bridge"
    assert "KeyName" not in instance
    assert not of_type(resources, "AWS::EC2::EIP")


def test_every_disk_and_the_bucket_are_encrypted(resources: dict[str, Any]) -> None:
    (instance,) = of_type(resources, "AWS::EC2::Instance").values()
    assert all(each["Ebs"]["Encrypted"] is True for each in instance["BlockDeviceMappings"])
    assert all(each["Encrypted"] is True for each in of_type(resources, "AWS::EC2::Volume").values())
    (bucket,) = of_type(resources, "AWS::S3::Bucket").values()
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"


def test_the_bucket_is_nobody_elses(resources: dict[str, Any]) -> None:
    (bucket,) = of_type(resources, "AWS::S3::Bucket").values()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["VersioningConfiguration"]["Status"] == "Enabled"
    (policy,) = of_type(resources, "AWS::S3::BucketPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.parametrize(
    ("name", "policy"),
    [("Bucket", "Retain"), ("Secrets", "Retain"), ("CodecKey", "Retain"), ("DataVolume", "Snapshot")],
)
def test_what_cannot_be_made_again_outlives_the_stack(resources: dict[str, Any], name: str, policy: str) -> None:
    assert (resources[name]["DeletionPolicy"], resources[name]["UpdateReplacePolicy"]) == (policy, policy)


def test_the_role_may_do_what_the_generated_policies_say_and_little_more(resources: dict[str, Any]) -> None:
    written = [each["PolicyDocument"] for each in of_type(resources, "AWS::IAM::ManagedPolicy").values()]
    generated = [json.loads(path.read_text()) for path in sorted((ROOT / "deploy" / "iam").glob("*.json"))]
    assert sorted(written, key=json.dumps) == sorted(generated, key=json.dumps)
    role = of_type(resources, "AWS::IAM::Role")["Role"]
    host = next(each for each in role["Policies"] if each.get("PolicyName") == "host")
    for statement in host["PolicyDocument"]["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        if statement["Resource"] == "*":
            assert actions == ["ecr:GetAuthorizationToken"], "which knows no resource"


def test_endpoints_are_for_what_the_host_itself_calls(resources: dict[str, Any]) -> None:
    endpoints = of_type(resources, "AWS::EC2::VPCEndpoint").values()
    named = {each["ServiceName"]["Sub"].partition("${AWS::Region}.")[2] for each in endpoints}
    assert named == {*SERVICES, "s3"}
    assert all(
        each["Condition"] == "WithEndpoints"
        for each in resources.values()
        if each["Type"] in ("AWS::EC2::VPCEndpoint",)
    )


def user_data(resources: dict[str, Any]) -> str:
    (instance,) = of_type(resources, "AWS::EC2::Instance").values()
    return str(instance["UserData"]["Fn::Base64"]["Sub"])


def test_images_and_bundle_are_named_by_their_content(written: dict[str, Any], resources: dict[str, Any]) -> None:
    image = written["Parameters"]["ImageUri"]["AllowedPattern"]
    digest = "a" * 64
    assert re.fullmatch(image, f"111122223333.dkr.ecr.us-west-2.amazonaws.com/instantstart@sha256:{digest}")
    assert not re.fullmatch(image, "111122223333.dkr.ecr.us-west-2.amazonaws.com/instantstart:latest")
    assert '"${BundleSha256}  /root/bundle.tar.gz" | sha256sum --check' in user_data(resources)


def test_scripts_are_shell_that_stops_at_the_first_failure(resources: dict[str, Any], tmp_path: Path) -> None:
    inside = user_data(resources).partition("#!/bin/bash\n")[2].partition("--//--")[0]
    data = tmp_path / "user-data.sh"
    data.write_text("#!/bin/bash\n" + re.sub(r"\$\{[\w:.]+\}", "value", inside))
    for script in (data, *(ROOT / each for each in SCRIPTS), ROOT / "deploy/compose/temporal/schema.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)
        assert re.search(r"^set -eu", script.read_text(), re.MULTILINE)


def test_no_secret_is_a_parameter_or_an_output(written: dict[str, Any]) -> None:
    for name in (*written["Parameters"], *written["Outputs"]):
        assert not re.search("Password|Token|SecretValue", name)


def test_the_bundle_has_all_that_compose_mounts_and_no_secret(tmp_path: Path) -> None:
    program = tmp_path / "docker-compose"
    program.write_bytes(b"a program")
    content = bundle(program)
    assert bundle(program) == content, "the same bytes again"
    archive = tmp_path / "bundle.tar.gz"
    archive.write_bytes(content)
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
    mounted = {
        volume["source"].removeprefix(f"{ROOT}/")
        for service in composed()["services"].values()
        for volume in service.get("volumes", ())
        if volume["type"] == "bind"
    }
    for path in mounted:
        assert any(name == path or name.startswith(f"{path}/") for name in names), path
    assert {"docker-compose.yml", "bin/docker-compose", "deploy/compose/prepare.py", *SCRIPTS} <= names
    assert not any("secrets" in name or name.endswith("credentials") for name in names)


SECRETS_MANAGER = """\
#!/usr/bin/env bash
# One secret of Secrets Manager: its versions are files.
set -euo pipefail
[ "$AWS_DEFAULT_REGION" = eu-west-1 ]
case "$2" in
    list-secret-version-ids) ls "$VERSIONS" | wc -l ;;
    get-secret-value) cat "$VERSIONS/$(ls "$VERSIONS" | tail -n 1)"; echo ;;
    put-secret-value) cp "${6#file://}" "$VERSIONS/$(printf %03d "$(ls "$VERSIONS" | wc -l)")" ;;
esac
"""


class Hosts:
    """Hosts of one stack, the one after the other, as far as their secrets are concerned."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = folder / "versions"
        self.versions.mkdir()
        program = folder / "bin" / "aws"
        program.parent.mkdir()
        program.write_text(SECRETS_MANAGER)
        program.chmod(0o755)

    def keep(self, host: str) -> dict[str, str]:
        """Run the script on a host, which is made where there is none of the name; its secrets then."""
        home = self.folder / host
        for part in ("deploy/cloudformation/keys.sh", "deploy/compose/prepare.py"):
            (home / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, home / part)
        secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:Secrets-abc"
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "SECRET": secret, "VERSIONS": str(self.versions)}
        run = subprocess.run(
            ["bash", str(home / "deploy/cloudformation/keys.sh")], env=env, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        return {each.name: each.read_text() for each in self.secrets(host).iterdir()}

    def secrets(self, host: str) -> Path:
        return self.folder / host / "deploy/compose/secrets"


def test_a_host_that_takes_anothers_place_has_its_secrets(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    first = hosts.keep("first")
    assert {"codec_keys", "seal_key", "postgres_password"} <= set(first)
    assert hosts.keep("first") == first
    assert len(list(hosts.versions.iterdir())) == 1, "what has not changed is not stored again"
    assert hosts.keep("second") == first


def test_a_key_that_was_replaced_stays_so_over_restarts_and_hosts(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    former = hosts.keep("first")
    (hosts.secrets("first") / "codec_keys").write_text(f"anew\n{former['codec_keys']}")
    changed = hosts.keep("first")
    assert changed == {**former, "codec_keys": f"anew\n{former['codec_keys']}"}
    assert hosts.keep("second") == changed
