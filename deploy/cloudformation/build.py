"""``python deploy/cloudformation/build.py``: puts management-host.yaml together.

It is management-host.in.yaml with the policies of deploy/iam in it, and an endpoint for each service that the host
itself speaks to. A person changes those; a test holds the result against them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("management-host.in.yaml")
TEMPLATE = Path(__file__).with_name("management-host.yaml")

SERVICES = ("ec2", "ssm", "ssmmessages", "ec2messages", "secretsmanager", "sts", "ecr.api", "ecr.dkr")
"""What Session Manager, the host's script and its registry need; operations call more, which goes out as it does."""

_ENDPOINT = """\
  {name}Endpoint:
    Type: AWS::EC2::VPCEndpoint
    Condition: WithEndpoints
    Properties:
      VpcId: !Ref VpcId
      ServiceName: !Sub com.amazonaws.${{AWS::Region}}.{service}
      VpcEndpointType: Interface
      PrivateDnsEnabled: true
      SubnetIds: [!Ref SubnetId]
      SecurityGroupIds: [!Ref EndpointSecurityGroup]
"""
_HEAD = "# Made by deploy/cloudformation/build.py from management-host.in.yaml and deploy/iam.\n"


def template() -> str:
    """The whole template."""
    text = SOURCE.read_text()
    text = re.sub(r'"@([\w./-]+\.json)"', lambda found: _compact(ROOT / found[1]), text)
    endpoints = "".join(_ENDPOINT.format(name=_name(service), service=service) for service in SERVICES)
    return _HEAD + text.replace("@ENDPOINTS@\n", endpoints)


def _compact(path: Path) -> str:
    """A policy on one line: YAML takes JSON as it is, and CloudFormation takes 51,200 bytes."""
    return json.dumps(json.loads(path.read_text()), separators=(",", ":"))


def _name(service: str) -> str:
    return "".join(part.capitalize() for part in service.split("."))


if __name__ == "__main__":
    TEMPLATE.write_text(template())
