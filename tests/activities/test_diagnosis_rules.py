"""Rules of diagnoses: the corpus, what must hold of any evidence, and what may be told of it."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.diagnostics import aws_entries, kubernetes_entries
from activities.diagnostics.lines import excerpt, told
from activities.diagnostics.log_entries import MOST_OF_A_RULE, of_log
from activities.diagnostics.matching import CLAIMED, EXPLAINED, causes, find, in_order, nearness, together
from activities.diagnostics.rules import RULES, Sign
from activities.diagnostics.rules.words import words_of
from activities.diagnostics.steps import with_step
from bench.corpus_cases import Case, load
from bench.diagnosis import CORPORA, first_of
from contracts.catalogue import KINDS
from contracts.diagnostics import (
    LONGEST_LINE,
    LONGEST_TEXT,
    Cause,
    Diagnosis,
    Repair,
    Source,
    Subject,
    TimelineEntry,
)

CASES = [case for name in CORPORA for case in load(name)]
FAILURES = [case for case in CASES if case.expect is not None]
BY_ID = {rule.id: rule for rule in RULES}
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
NODE = "hyperpod-i-0aaaaaaaaaaaaaaa1"
XID_79 = "condition NvidiaErrorTerminate=True, XidHardwareFailure: NVRM: Xid (PCI:0000:b9:00): 79, GPU has fallen off"
TIMEOUT = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580) ran for 600060 ms before timing out."
)
NOISE = [
    "step 1200/5000 loss 1.2345 lr 2.0e-05 tokens/s 51234",
    "NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol.",
    "FutureWarning: torch.cuda.amp.autocast(args...) is deprecated.",
    "Pulled: Successfully pulled image in 41.2s",
    "saving checkpoint to /s3/ck/step-100",
]


def entry(text: str, source: Source = Source.LOG, minutes: float | None = 0, node: str | None = None) -> TimelineEntry:
    at = NOON + timedelta(minutes=minutes) if minutes is not None else None
    return TimelineEntry(at=at, source=source, subject="pod a", text=text, node=node)


def confidence(found: list[Cause], rule: str) -> float:
    return next((cause.confidence for cause in found if cause.rule == rule), 0.0)


def rank(found: list[Cause], rule: str) -> int:
    return [cause.rule for cause in found].index(rule)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_right_cause_comes_first_and_unknown_stays_unknown(case: Case) -> None:
    assert first_of(case) == case.expect


def test_the_corpus_knows_as_many_failures_as_it_should_and_none_twice() -> None:
    assert len(FAILURES) >= 40
    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.expect for case in FAILURES} <= set(BY_ID)


def test_rules_have_names_of_their_own_and_lead_only_to_rules() -> None:
    assert len(BY_ID) == len(RULES)
    for rule in RULES:
        assert rule.leads_to <= set(BY_ID)
        assert rule.signs
        assert rule.title
        assert rule.explanation
        assert rule.fix
        assert rule.source.startswith(("https://", "docs/"))


def test_no_rule_is_in_the_end_its_own_consequence() -> None:
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for each in BY_ID[name].leads_to:
                walk(each, (*path, name))
            done.add(name)

    for name in BY_ID:
        walk(name, ())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_patterns_have_no_repetition_without_end_within_another_or_across_anything(rule: object) -> None:
    for sign in rule.signs:  # type: ignore[attr-defined]
        assert not re.search(r"\)[*+]|\)\{\d+,\}", sign.pattern), sign.pattern
        assert not re.search(r"(?<!\\)\.[*+]", sign.pattern), sign.pattern


ASCII = st.characters(codec="ascii")
SIGNS = sorted({sign.pattern: sign for rule in RULES for sign in rule.signs}.items())


@pytest.mark.parametrize("sign", [sign for _, sign in SIGNS], ids=lambda sign: sign.pattern[:40])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_what_a_pattern_matches_has_one_of_its_words(sign: Sign, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(sign.regex, alphabet=ASCII))
    assert sign.found(text, text.lower()) is not None


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\bXid (?:79|48)\b", {"xid "}),
        (r"fallen off the bus", {"fallen off the bus"}),
        (r"colou?r", {"colo"}),
        (r"(?:a{2}|bcd) ?x", None),
        (r"(?:abcd|efgh) ?x", {"abcd", "efgh"}),
        (r"(?:abcd)? ?x", None),
        (r"[abc]{3}|word", None),
        (r"one two|[)|]three", {"one two", "three"}),
        (r"is \{(?!x)key\}", {"is {", "key}"}),
    ],
)
def test_words_are_those_that_must_be_there(pattern: str, words: set[str] | None) -> None:
    found = words_of(pattern)
    assert (found is None) == (words is None)
    assert found is None or (words is not None and found <= words)


def test_nearly_every_pattern_of_logs_has_words() -> None:
    without = [sign.pattern for _, sign in SIGNS if sign.words is None and Source.LOG in sign.sources]
    assert len(without) <= 3, without


@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_the_order_of_evidence_does_not_matter(case: Case, shuffle: random.Random) -> None:
    entries = case.entries()
    shuffled = [*entries, *entries]
    shuffle.shuffle(shuffled)
    assert causes(shuffled, case.failed_at) == causes(entries, case.failed_at)


@given(st.sampled_from(CASES), st.lists(st.tuples(st.sampled_from(NOISE), st.integers(-600, 600)), max_size=20))
def test_noise_changes_no_cause(case: Case, noise: list[tuple[str, int]]) -> None:
    entries = case.entries()
    more = [entry(text, minutes=minutes) for text, minutes in noise]
    assert causes([*entries, *more], case.failed_at) == causes(entries, case.failed_at)


@given(st.sampled_from(FAILURES), st.sampled_from(FAILURES))
def test_evidence_of_something_else_never_makes_a_cause_more_probable_unless_it_is_its_consequence(
    case: Case, other: Case
) -> None:
    assert case.expect is not None
    before = causes(case.entries(), None)
    together = find([*case.entries(), *other.entries()])
    found = {each.rule.id: each for each in together}
    alone = {each.rule.id for each in find(other.entries())}
    if case.expect in alone or any(found[case.expect].explains(found[name]) for name in alone):
        return
    after = causes([*case.entries(), *other.entries()], None)
    assert confidence(after, case.expect) <= confidence(before, case.expect)


ROOTS = [rule for rule in RULES if not any(rule.id in other.leads_to for other in RULES)]


@given(st.sampled_from(FAILURES), st.sampled_from([case for case in FAILURES if BY_ID[case.expect or ""] in ROOTS]))
def test_more_evidence_of_a_root_cause_never_lowers_its_rank(case: Case, root: Case) -> None:
    assert root.expect is not None
    if {each.rule.id for each in find(_elsewhere(root))} != {root.expect}:
        return  # what is told again speaks for other causes, too
    once = [*case.entries(), *root.entries()]
    before, after = causes(once, None), causes([*once, *_elsewhere(root)], None)
    if root.expect in [cause.rule for cause in before]:
        assert rank(after, root.expect) <= rank(before, root.expect)


def _elsewhere(case: Case) -> list[TimelineEntry]:
    """The same that other sources tell too."""
    return [
        each.model_copy(update={"source": source}) for each in case.entries() for source in (Source.NODE, Source.LOG)
    ]


def test_a_lost_gpu_explains_the_timeout_that_follows_and_not_the_one_before() -> None:
    follows = causes([entry(XID_79, Source.NODE, 0, NODE), entry(TIMEOUT, minutes=10)])
    reasons = {cause.rule: cause.explained_by for cause in follows}
    assert follows[0].rule == "gpu-off-bus"
    assert (reasons["gpu-off-bus"], reasons["collective-timeout"]) == (None, "gpu-off-bus")
    before = causes([entry(XID_79, Source.NODE, 60, NODE), entry(TIMEOUT, minutes=0)])
    assert confidence(before, "collective-timeout") > confidence(follows, "collective-timeout")
    assert next(cause for cause in before if cause.rule == "collective-timeout").explained_by is None


def test_a_consequence_is_never_as_probable_as_its_cause() -> None:
    weak = entry("NVRM: Xid (PCI:0000:b9:00): 31, MMU Fault", Source.NODE)
    strong = [entry(TIMEOUT), entry("hang was detected", Source.JOB), entry("hang was detected", Source.LOG)]
    for cause in causes([weak, *strong]):
        if cause.explained_by:
            assert cause.confidence <= EXPLAINED * 1.0
            assert rank(causes([weak, *strong]), cause.explained_by) < rank(causes([weak, *strong]), cause.rule)


def test_a_second_source_makes_more_probable_and_a_second_line_of_one_source_does_not() -> None:
    once = confidence(causes([entry("No space left on device")]), "disk-full")
    twice = confidence(causes([entry("No space left on device"), entry("ENOSPC", minutes=1)]), "disk-full")
    both = causes([entry("No space left on device"), entry("No space left on device", Source.KUBERNETES_EVENT)])
    assert once == twice < confidence(both, "disk-full")


def test_evidence_far_before_the_failure_counts_less() -> None:
    line = [entry(TIMEOUT, minutes=0)]
    near = confidence(causes(line, NOON + timedelta(minutes=30)), "collective-timeout")
    far = causes(line, NOON + timedelta(hours=12))
    assert near > CLAIMED
    assert far == []


def test_what_was_told_again_and_again_is_one_entry_that_counts_and_is_as_near_as_its_nearest() -> None:
    hours = [entry("No space left on device", Source.KUBERNETES_EVENT, minutes) for minutes in (0, 600, 1200)]
    (one,) = together([*hours, *hours[:1]])
    assert (one.count, one.at, one.last_at) == (3, NOON, NOON + timedelta(minutes=1200))
    for minutes in (-300, 0, 300, 600, 1200):
        moment = NOON + timedelta(minutes=minutes)
        assert nearness(one, moment) >= max(nearness(each, moment) for each in hours)
    assert len(together([*hours, entry("No space left on device", minutes=0)])) == 2


def test_the_first_line_of_the_evidence_is_the_first_that_was_written() -> None:
    lines = [entry(f"{TIMEOUT} {number}", minutes=number) for number in (3, 1, 2)]
    (cause,) = causes(lines)
    assert [each.text[-1] for each in cause.evidence] == ["1", "2", "3"]


# What may be told

SECRETS = [
    "hf_abcdefghijklmnop",
    "AKIAABCDEFGHIJKLMNOP",
    "password=hunter22",
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "Authorization: Bearer abc.def.ghi",
    "https://user:hunter22@host/x",
    "--hf-token hunter22",
    "ghp_abcdefghijklmnop1234",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]
PARTS = ("abcdefghijklmnop", "hunter22", "wJalrXUtnFEMI", "AKIA", "abc.def", "eyJ")


@pytest.mark.parametrize("secret", SECRETS)
@given(before=st.integers(0, 700), after=st.integers(0, 200))
def test_no_part_of_a_secret_is_told_wherever_it_stands_in_a_line(secret: str, before: int, after: int) -> None:
    line = f"{'x ' * before}{secret} {'y ' * after}No space left on device"
    for text in (told(line), excerpt(line, line.index("No space")), excerpt(line, len(line) // 2)):
        assert not any(part in text for part in PARTS)


@given(st.text(max_size=3000), st.integers(0, 3000))
def test_what_is_told_is_one_short_line(text: str, at: int) -> None:
    assert len(told(text)) <= LONGEST_TEXT
    shown = excerpt(text, at)
    assert len(shown) <= LONGEST_LINE
    assert "\n" not in shown + told(text)


def test_of_a_log_only_lines_are_told_that_a_rule_knows_and_few_of_each() -> None:
    lines = [f"2026-11-02T12:00:{second:02}.123456789Z No space left on device {second}" for second in range(9)]
    lines.insert(4, "2026-11-02T12:00:04Z my private text")
    found = of_log("a", NODE, [*lines, *(f"2026-11-02T12:00:01Z {noise}" for noise in NOISE)])
    assert len(found) == MOST_OF_A_RULE
    assert found[0].at == datetime(2026, 11, 2, 12, 0, 0, 123456, tzinfo=UTC)
    assert {each.node for each in found} == {NODE}


def test_an_end_of_a_container_never_tells_its_own_message_or_command() -> None:
    ended = {"exitCode": 128, "reason": "StartError", "finishedAt": "2026-11-02T12:00:00Z"}
    ended["message"] = (
        'OCI runtime create failed: exec: "hyperpodrun": executable file not found in $PATH --token=s3cret'
    )
    pod = {
        "metadata": {"name": "a", "namespace": "ml"},
        "spec": {},
        "status": {"containerStatuses": [{"name": "c", "state": {"terminated": ended}, "lastState": {}}]},
    }
    (found,) = kubernetes_entries.of_pod(pod)
    assert "executable file not found" in found.text
    assert "s3cret" not in found.text
    assert found.subject == "pod ml/a"
    ended["message"] = "the end of its log: my private text"
    (found,) = kubernetes_entries.of_pod(pod)
    assert "private" not in found.text


def test_a_healthy_node_subnet_group_and_member_tell_nothing() -> None:
    ready = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]
    monitored = [
        {"type": "AcceleratedHardwareReady", "status": "True"},
        {"type": "NvidiaErrorReboot", "status": "False"},
    ]
    labels = {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}
    node = {"metadata": {"name": "n", "labels": labels}, "spec": {}, "status": {"conditions": ready + monitored}}
    own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}]
    group = {"GroupId": "sg-1", "IpPermissions": own, "IpPermissionsEgress": own}
    assert kubernetes_entries.of_node(node) == []
    assert aws_entries.of_security_group(group) == []
    assert aws_entries.of_subnet({"SubnetId": "s", "AvailableIpAddressCount": 4000}) is None
    assert aws_entries.of_member({"InstanceId": "i-1", "InstanceStatus": {"Status": "Running"}}) is None
    assert aws_entries.of_quota("q", 4, 4) is None


# What to do next


def step(*entries: TimelineEntry, repairs: list[Repair] | None = None, subject: str = "a") -> Cause:
    (cause, *_) = causes(entries)
    about = Subject(kind="training-run", name=subject)
    return with_step(cause, BY_ID[cause.rule], about, repairs or [], NOON + timedelta(hours=1))


ECC = "condition NvidiaErrorReboot=True, XidHardwareFailure: NVRM: Xid (PCI:0000:10:1c): 48, DBE"


def tried(action: str, minutes: float, succeeded: bool = True) -> Repair:
    at = NOON + timedelta(minutes=minutes)
    return Repair.model_validate({"action": action, "target": NODE, "at": at, "succeeded": succeeded})


def test_an_error_of_memory_is_rebooted_first_and_replaced_when_that_was_tried() -> None:
    first = step(entry(ECC, Source.NODE, 0, NODE)).next_step
    assert first is not None
    assert (first.level, first.operation, first.spec) == ("reboot", "reboot-nodes", {"nodes": [NODE]})
    again = step(entry(ECC, Source.NODE, 0, NODE), repairs=[tried("reboot", -60)]).next_step
    assert again is not None
    assert (again.level, again.operation) == ("replace", "replace-nodes")
    third = step(entry(ECC, Source.NODE, 0, NODE), repairs=[tried("reboot", -90), tried("replace", -60)]).next_step
    assert third is not None
    assert (third.level, third.operation) == ("support", None)


def test_a_repair_counts_for_the_fault_that_it_was_for() -> None:
    def replaced(*faults: str) -> Repair:
        return tried("replace", -60).model_copy(update={"faults": {NODE.removeprefix("hyperpod-"): list(faults)}})

    efa = "condition EfaErrorReboot=True, EfaDeviceCountMismatch: Expected 32 EFA devices, found 31."
    for other in (replaced(efa), replaced()):
        found = step(entry(ECC, Source.NODE, 0, NODE), repairs=[other]).next_step
        assert found is not None
        assert (found.level, found.operation) == ("reboot", "reboot-nodes")
    again = step(entry(ECC, Source.NODE, 0, NODE), repairs=[replaced(efa, ECC)]).next_step
    assert again is not None
    assert again.level == "support"
    assert "the fault came again" in again.why
    unknown = step(entry(ECC, Source.NODE, 0, NODE), repairs=[tried("replace", -60)]).next_step
    assert unknown is not None
    assert "there is this fault since" in unknown.why
    seen = entry(ECC, Source.KUBERNETES_EVENT, -120, NODE)
    before = step(seen, entry(ECC, Source.NODE, 0, NODE), repairs=[tried("replace", -60)]).next_step
    assert before is not None
    assert "the fault came again" in before.why


def test_what_was_seen_before_the_last_repair_is_not_repaired_again() -> None:
    found = step(entry(ECC, Source.NODE, 0, NODE), repairs=[tried("reboot", 5)]).next_step
    assert found is not None
    assert (found.level, found.operation) == ("wait", None)


def test_a_reboot_that_failed_or_was_of_another_node_or_long_ago() -> None:
    failed = step(entry(ECC, Source.NODE, 0, NODE), repairs=[tried("reboot", 5, succeeded=False)]).next_step
    assert failed is not None
    assert failed.level == "replace"
    other = tried("reboot", -5).model_copy(update={"target": "i-0ffffffffffffffff"})
    for repairs in ([other], [tried("reboot", -60 * 24 * 10)]):
        found = step(entry(ECC, Source.NODE, 0, NODE), repairs=repairs).next_step
        assert found is not None
        assert found.level == "reboot"


def test_a_node_that_hyperpod_wants_replaced_is_not_rebooted() -> None:
    marked = entry("label node-health-status=UnschedulablePendingReplacement", Source.NODE, None, NODE)
    (found, *_) = causes([entry(ECC, Source.NODE, 0, NODE), marked])
    assert found.rule == "gpu-ecc"
    unhealthy = step(marked, entry("label fault-types=NvidiaErrorTerminate", Source.INSTANCE, None, NODE))
    assert unhealthy.next_step is not None
    assert unhealthy.next_step.level == "replace"


def test_a_consequence_proposes_nothing_but_to_look_at_its_cause() -> None:
    found = causes([entry(XID_79, Source.NODE, 0, NODE), entry(TIMEOUT, minutes=10)])
    consequence = with_step(found[1], BY_ID[found[1].rule], Subject(kind="training-run", name="a"), [])
    assert consequence.next_step is not None
    assert (consequence.next_step.level, consequence.next_step.operation) == ("investigate", None)


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.id)
def test_every_proposal_is_an_operation_that_could_be_started_as_it_is(case: Case) -> None:
    for cause in causes(case.entries(), case.failed_at):
        told_step = with_step(cause, BY_ID[cause.rule], case.subject, []).next_step
        assert told_step is not None
        assert told_step.why
        if told_step.operation is not None:
            KINDS[told_step.operation].spec.model_validate(told_step.spec)


@given(st.sampled_from(CASES))
def test_a_diagnosis_survives_its_journey_as_json(case: Case) -> None:
    found = causes(case.entries(), case.failed_at)
    whole = Diagnosis(subject=case.subject, causes=found, timeline=in_order(case.entries()), read_at=NOON)
    assert Diagnosis.model_validate_json(whole.model_dump_json()) == whole
