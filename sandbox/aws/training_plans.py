"""SageMaker training plans: offerings, purchases, extensions, and reserved capacity that becomes active and expires.

https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html. Prices are invented.
UNVERIFIED: that an extension starts where the plan ends, that its offering can be bought again, and the wording of what
is refused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.base import Base
from sandbox.aws.hyperpod.state import Plan
from sandbox.aws.instance_types import offered_zones
from sandbox.aws.world import Place, alphanumeric, paginate

HOURLY = {"ml.p4d.24xlarge": 22.0, "ml.p5.48xlarge": 45.0, "ml.p5en.48xlarge": 60.0, "ml.trn2.48xlarge": 35.0}
DEFAULT_HOURLY = 40.0
DEFAULT_HOURS = 24


class TrainingPlans(Base):
    """Handlers of the operations on training plans."""

    def listen_to_plans(self) -> None:
        self.world.on("plans.active", self._on_plan_active)
        self.world.on("plans.expired", self._on_plan_expired)

    def SearchTrainingPlanOfferings(self, call: Call) -> Any:
        p = call.params
        if p.get("TrainingPlanArn"):
            return {"TrainingPlanOfferings": [], "TrainingPlanExtensionOfferings": self._extensions(call)}
        if p.get("UltraServerType") or not p.get("InstanceType"):
            return {"TrainingPlanOfferings": []}
        instance_type, count = p["InstanceType"], p.get("InstanceCount") or 1
        hours = p.get("DurationHours") or DEFAULT_HOURS
        start = _aware(p.get("StartTimeAfter") or self.world.now())
        end = start + timedelta(hours=hours)
        if p.get("EndTimeBefore") and end > _aware(p["EndTimeBefore"]):
            return {"TrainingPlanOfferings": []}
        offerings = []
        for zone in sorted(offered_zones(call.region, instance_type.removeprefix("ml."))):
            identifier = f"tpo-{alphanumeric(24)}"
            fee = f"{HOURLY.get(instance_type, DEFAULT_HOURLY) * count * hours:.2f}"
            capacity = {
                "ReservedCapacityType": "Instance",
                "InstanceType": instance_type,
                "InstanceCount": count,
                "AvailabilityZone": zone,
                "DurationHours": hours,
                "DurationMinutes": 0,
                "StartTime": start,
                "EndTime": end,
            }
            offerings.append(
                {
                    "TrainingPlanOfferingId": identifier,
                    "TargetResources": p.get("TargetResources") or ["hyperpod-cluster"],
                    "RequestedStartTimeAfter": start,
                    "DurationHours": hours,
                    "DurationMinutes": 0,
                    "UpfrontFee": fee,
                    "CurrencyCode": "USD",
                    "ReservedCapacityOfferings": [capacity],
                }
            )
            self.state.offerings[identifier] = {**capacity, "Fee": fee, "Place": call.place}
        return {"TrainingPlanOfferings": offerings}

    def CreateTrainingPlan(self, call: Call) -> Any:
        p = call.params
        name, offering = p["TrainingPlanName"], self.state.offerings.get(p["TrainingPlanOfferingId"])
        if name in self.state.plans.get(call.place, {}):
            raise AwsError("ResourceInUse", f"Training plan with name {name} already exists.")
        if offering is None or offering.get("Place") != call.place:
            raise AwsError("ResourceNotFound", f"Training plan offering {p['TrainingPlanOfferingId']} not found.")
        plan = self.make_plan(
            call.place,
            name=name,
            instance_type=offering["InstanceType"],
            zone=offering["AvailabilityZone"],
            count=offering["InstanceCount"],
            start=offering["StartTime"],
            end=offering["EndTime"],
        )
        plan.fee, plan.offering = offering["Fee"], p["TrainingPlanOfferingId"]
        plan.tags = {t["Key"]: t["Value"] for t in p.get("Tags") or []}
        return {"TrainingPlanArn": plan.arn}

    def DescribeTrainingPlan(self, call: Call) -> Any:
        wanted = call.params["TrainingPlanName"]
        for plan in self.state.plans.get(call.place, {}).values():
            if wanted in (plan.name, plan.arn):
                in_use = self.plan_in_use(plan.arn)
                return self._plan_shape(plan) | {
                    "AvailableInstanceCount": plan.count - in_use,
                    "InUseInstanceCount": in_use,
                    "UnhealthyInstanceCount": 0,
                    "AvailableSpareInstanceCount": 0,
                }
        raise AwsError("ResourceNotFound", f"Training plan {wanted} not found.")

    def ExtendTrainingPlan(self, call: Call) -> Any:
        """A purchase without a token: whoever repeats it buys again."""
        identifier = call.params["TrainingPlanExtensionOfferingId"]
        offering = self.state.offerings.get(identifier)
        plan = self.plan(call.place, offering.get("Plan", "")) if offering else None
        if offering is None or plan is None:
            raise AwsError("ResourceNotFound", f"Training plan extension offering {identifier} not found.")
        if plan.status in ("Expired", "Failed"):
            raise AwsError("ValidationException", f"Training plan {plan.arn} is in {plan.status} status.")
        start, plan.end = plan.end, plan.end + timedelta(hours=offering["Hours"])
        plan.extensions.append(
            {
                "TrainingPlanExtensionOfferingId": identifier,
                "ExtendedAt": self.world.now(),
                "StartDate": start,
                "EndDate": plan.end,
                "PaymentStatus": "Succeeded",
                "AvailabilityZone": plan.zone,
                "AvailabilityZoneId": plan.zone_id,
                "DurationHours": offering["Hours"],
                "UpfrontFee": offering["Fee"],
                "CurrencyCode": "USD",
            }
        )
        self._expect_end(call.place, plan)
        return {"TrainingPlanExtensions": self._history(plan)}

    def DescribeTrainingPlanExtensionHistory(self, call: Call) -> Any:
        p = call.params
        plan = self.plan(call.place, p["TrainingPlanArn"])
        if plan is None:
            raise AwsError("ResourceNotFound", f"Training plan {p['TrainingPlanArn']} not found.")
        page, token = paginate(self._history(plan), p.get("NextToken"), p.get("MaxResults") or 100)
        return {"TrainingPlanExtensions": page, "NextToken": token}

    def DescribeReservedCapacity(self, call: Call) -> Any:
        wanted = call.params["ReservedCapacityArn"]
        for plan in self.state.plans.get(call.place, {}).values():
            if plan.capacity_arn == wanted:
                in_use = self.plan_in_use(plan.arn)
                counts = {"AvailableInstanceCount": plan.count - in_use, "InUseInstanceCount": in_use}
                summary: dict[str, Any] = self._plan_shape(plan)["ReservedCapacitySummaries"][0]
                return {k: v for k, v in summary.items() if k != "AvailabilityZoneId"} | counts
        raise AwsError("ResourceNotFound", f"Reserved capacity {wanted} not found.")

    def _extensions(self, call: Call) -> list[dict[str, Any]]:
        """Offerings to extend a plan: a day, or as long as was asked for."""
        plan, hours = self.plan(call.place, call.params["TrainingPlanArn"]), call.params.get("DurationHours")
        if plan is None or plan.status in ("Expired", "Failed"):
            return []
        identifier, hours = f"tpeo-{alphanumeric(24)}", hours or DEFAULT_HOURS
        fee = f"{HOURLY.get(plan.instance_type, DEFAULT_HOURLY) * plan.count * hours:.2f}"
        self.state.offerings[identifier] = {"Plan": plan.arn, "Hours": hours, "Fee": fee}
        return [
            {
                "TrainingPlanExtensionOfferingId": identifier,
                "AvailabilityZone": plan.zone,
                "StartDate": plan.end,
                "EndDate": plan.end + timedelta(hours=hours),
                "DurationHours": hours,
                "UpfrontFee": fee,
                "CurrencyCode": "USD",
            }
        ]

    def _history(self, plan: Plan) -> list[dict[str, Any]]:
        now = self.world.now()

        def status(extension: dict[str, Any]) -> str:
            if extension["StartDate"] > now:
                return "Scheduled"
            return "Active" if extension["EndDate"] > now else "Expired"

        return [{**extension, "Status": status(extension)} for extension in plan.extensions]

    def ListTrainingPlans(self, call: Call) -> Any:
        p = call.params
        statuses = [f["Value"] for f in p.get("Filters") or [] if f["Name"] == "Status"]
        found = [
            plan for plan in self.state.plans.get(call.place, {}).values() if not statuses or plan.status in statuses
        ]
        found.sort(key=lambda plan: plan.start, reverse=p.get("SortOrder") == "Descending")
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or 100)
        summaries = []
        for plan in page:
            in_use = self.plan_in_use(plan.arn)
            counts = {"AvailableInstanceCount": plan.count - in_use, "InUseInstanceCount": in_use}
            summaries.append(self._plan_shape(plan) | counts)
        return {"TrainingPlanSummaries": summaries, "NextToken": token}

    def make_plan(
        self,
        place: Place,
        *,
        name: str,
        instance_type: str,
        zone: str,
        count: int,
        start: datetime,
        end: datetime,
        status: str = "",
    ) -> Plan:
        """A plan with one reserved capacity. Without a status it goes through its own life."""
        account, region = place
        names = _zones(region)
        zone_name = next((n for n, i in names.items() if zone in (n, i)), zone)
        plan = Plan(
            name=name,
            arn=f"arn:aws:sagemaker:{region}:{account}:training-plan/{name}",
            capacity_arn=f"arn:aws:sagemaker:{region}:{account}:reserved-capacity/{alphanumeric(12)}",
            instance_type=instance_type,
            zone=zone_name,
            zone_id=names.get(zone_name, zone_name),
            count=count,
            start=_aware(start),
            end=_aware(end),
            status=status or "Pending",
        )
        self.state.plans.setdefault(place, {})[name] = plan
        now = self.world.now()
        payload = {"account": account, "region": region, "name": name}
        if not status:
            wait = max(timings.TRAINING_PLAN_PENDING, (plan.start - now).total_seconds())
            plan.status = "Scheduled" if plan.start > now else "Pending"
            self.world.clock.schedule(wait, "plans.active", **payload)
        if status in ("", "Active", "Scheduled", "Pending"):
            self._expect_end(place, plan)
        return plan

    def _expect_end(self, place: Place, plan: Plan) -> None:
        left = max(0.0, (plan.end - self.world.now()).total_seconds())
        self.world.clock.schedule(left, "plans.expired", account=place[0], region=place[1], name=plan.name)

    def _on_plan_active(self, account: str, region: str, name: str) -> None:
        plan = self.state.plans.get((account, region), {}).get(name)
        if plan is not None and plan.status in ("Pending", "Scheduled"):
            plan.status = "Active"

    def _on_plan_expired(self, account: str, region: str, name: str) -> None:
        """Reserved capacity ends, and HyperPod takes the instances away."""
        plan = self.state.plans.get((account, region), {}).get(name)
        # A second of grace: times of plans are rounded on their way through the clock.
        if plan is None or plan.status in ("Expired", "Failed") or plan.end > self.world.now() + timedelta(seconds=1):
            return
        plan.status = "Expired"
        for cluster in self.state.clusters.get((account, region), {}).values():
            for node in [n for n in cluster.nodes.values() if n.plan == plan.arn]:
                self.stop(cluster, node)

    def stop(self, cluster: Any, node: Any) -> None:
        """Terminate a node; what runs the nodes does it."""
        raise NotImplementedError

    def _plan_shape(self, plan: Plan) -> dict[str, Any]:
        minutes = int((plan.end - plan.start).total_seconds() // 60)
        times = {
            "DurationHours": minutes // 60,
            "DurationMinutes": minutes % 60,
            "StartTime": plan.start,
            "EndTime": plan.end,
        }
        return {
            "TrainingPlanArn": plan.arn,
            "TrainingPlanName": plan.name,
            "Status": plan.status,
            **times,
            "UpfrontFee": plan.fee,
            "CurrencyCode": "USD",
            "TotalInstanceCount": plan.count,
            "TargetResources": ["hyperpod-cluster"],
            "ReservedCapacitySummaries": [
                {
                    "ReservedCapacityArn": plan.capacity_arn,
                    "ReservedCapacityType": "Instance",
                    "InstanceType": plan.instance_type,
                    "TotalInstanceCount": plan.count,
                    "Status": plan.status,
                    "AvailabilityZone": plan.zone,
                    "AvailabilityZoneId": plan.zone_id,
                    **times,
                }
            ],
        }


def _zones(region: str) -> dict[str, str]:
    """Zone names to zone ids."""
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    return {zone.name: zone.zone_id for zone in RegionsAndZonesBackend.zones.get(region, [])}


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)
