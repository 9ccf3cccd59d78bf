"""A conversation with MLflow's REST API, and what MLflow's own server said in it.

``mlflow_answers.json`` holds those of MLflow 3.0.0 (``mlflow server`` on SQLite). To take them anew, run this file
with the address of such a server: ``python tests/sandbox/aws/mlflow_conversation.py http://127.0.0.1:5000 > …``.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

Send = Callable[[str, str, Any], tuple[int, Any]]
TIMES = ("creation_time", "last_update_time", "start_time", "end_time")
GIVEN_TIMES = (5000, 6000)
API = "/api/2.0/mlflow/"


class Conversation:
    """What was asked, and what was answered: identifiers and times of the server's making by names."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.names: dict[str, str] = {}
        self.said: list[dict[str, Any]] = []

    def say(self, ask: str, method: str, path: str, body: Any = None) -> Any:
        status, answer = self._send(method, API + path, body)
        self.said.append({"ask": ask, "status": status, "answer": self.named(answer)})
        return answer

    def named(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.named(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.named(each, key) for each in value]
        if key in TIMES and value not in GIVEN_TIMES:
            return "<time>"
        if not isinstance(value, str):
            return value
        for real, name in self.names.items():
            value = value.replace(real, name)
        if key == "next_page_token":
            return "<token>"
        value = re.sub(r"[0-9a-f]{32}", "<hex>", value)
        return "<random-name>" if re.fullmatch(r"[a-z]+-[a-z]+-\d{1,3}", value) else value


def talk(send: Send) -> list[dict[str, Any]]:
    """Hold the conversation with an empty server."""
    talking = Conversation(send)
    say, names, said = talking.say, talking.names, talking.said
    say("get missing experiment by name", "GET", "experiments/get-by-name?experiment_name=nope")
    e = say(
        "create experiment", "POST", "experiments/create", {"name": "first", "tags": [{"key": "team", "value": "a"}]}
    )
    names[e["experiment_id"]] = e["experiment_id"]
    eid = e["experiment_id"]
    say("create it again", "POST", "experiments/create", {"name": "first"})
    say("create without name", "POST", "experiments/create", {})
    say("get by name", "GET", "experiments/get-by-name?experiment_name=first")
    say("get by id", "GET", f"experiments/get?experiment_id={eid}")
    say("get by unknown id", "GET", "experiments/get?experiment_id=999999")
    say(
        "set experiment tag", "POST", "experiments/set-experiment-tag", {"experiment_id": eid, "key": "k", "value": "v"}
    )
    e2 = say("second experiment", "POST", "experiments/create", {"name": "second"})["experiment_id"]
    p = say(
        "search experiments page 1", "POST", "experiments/search", {"max_results": 2, "order_by": ["experiment_id ASC"]}
    )
    say(
        "search experiments page 2",
        "POST",
        "experiments/search",
        {"max_results": 2, "order_by": ["experiment_id ASC"], "page_token": p.get("next_page_token")},
    )
    say("search experiments by name", "POST", "experiments/search", {"max_results": 10, "filter": "name = 'second'"})
    say("search experiments like", "POST", "experiments/search", {"max_results": 10, "filter": "name LIKE 'fir%'"})
    say("search experiments no limit", "POST", "experiments/search", {})
    say("search experiments limit too high", "POST", "experiments/search", {"max_results": 60000})
    say("search experiments bad filter", "POST", "experiments/search", {"max_results": 10, "filter": "size = 3"})
    runs = []
    for i in range(4):
        r = say(
            f"create run {i}",
            "POST",
            "runs/create",
            {
                "experiment_id": eid,
                "start_time": 5000 + i,
                "run_name": f"run-number-{'abcd'[i]}",
                "tags": [{"key": "nodes", "value": str(i)}, {"key": "source_run_id", "value": f"s{i}"}],
            },
        )
        rid = r["run"]["info"]["run_id"]
        names[rid] = f"<run{i}>"
        runs.append(rid)
        said[-1]["answer"] = talking.named(r)
    say("create run without name or user", "POST", "runs/create", {"experiment_id": e2})
    say("create run in unknown experiment", "POST", "runs/create", {"experiment_id": "424242"})
    r0 = runs[0]
    say(
        "log metric",
        "POST",
        "runs/log-metric",
        {"run_id": r0, "key": "loss", "value": 2.5, "timestamp": 6000, "step": 0},
    )
    say(
        "log same metric again",
        "POST",
        "runs/log-metric",
        {"run_id": r0, "key": "loss", "value": 2.5, "timestamp": 6000, "step": 0},
    )
    say(
        "log metric nan",
        "POST",
        "runs/log-metric",
        {"run_id": r0, "key": "odd", "value": "NaN", "timestamp": 6001, "step": 0},
    )
    say(
        "log metric infinity",
        "POST",
        "runs/log-metric",
        {"run_id": r0, "key": "inf", "value": "Infinity", "timestamp": 6001, "step": 0},
    )
    say("log metric without key", "POST", "runs/log-metric", {"run_id": r0, "value": 1, "timestamp": 1})
    say("log metric bad value", "POST", "runs/log-metric", {"run_id": r0, "key": "x", "value": "abc", "timestamp": 1})
    say(
        "log metric unknown run",
        "POST",
        "runs/log-metric",
        {"run_id": "0" * 32, "key": "x", "value": 1, "timestamp": 1},
    )
    say(
        "log batch",
        "POST",
        "runs/log-batch",
        {
            "run_id": r0,
            "metrics": [
                {"key": "loss", "value": 2.0, "timestamp": 6002, "step": 10},
                {"key": "loss", "value": 1.0, "timestamp": 6003, "step": 20},
                {"key": "acc", "value": 0.5, "timestamp": 6003, "step": 20},
            ],
            "params": [{"key": "lr", "value": "0.1"}],
            "tags": [{"key": "t", "value": "1"}],
        },
    )
    say(
        "log batch the same again",
        "POST",
        "runs/log-batch",
        {
            "run_id": r0,
            "metrics": [
                {"key": "loss", "value": 2.0, "timestamp": 6002, "step": 10},
                {"key": "loss", "value": 1.0, "timestamp": 6003, "step": 20},
            ],
            "params": [{"key": "lr", "value": "0.1"}],
            "tags": [{"key": "t", "value": "1"}],
        },
    )
    say("log batch other param", "POST", "runs/log-batch", {"run_id": r0, "params": [{"key": "lr", "value": "0.2"}]})
    say(
        "log batch too many metrics",
        "POST",
        "runs/log-batch",
        {"run_id": r0, "metrics": [{"key": "m", "value": i, "timestamp": 1, "step": i} for i in range(1001)]},
    )
    say(
        "log batch too many params",
        "POST",
        "runs/log-batch",
        {"run_id": r0, "params": [{"key": f"p{i}", "value": "1"} for i in range(101)]},
    )
    say(
        "log batch too many tags",
        "POST",
        "runs/log-batch",
        {"run_id": r0, "tags": [{"key": f"p{i}", "value": "1"} for i in range(101)]},
    )
    say(
        "log batch too many together",
        "POST",
        "runs/log-batch",
        {
            "run_id": r0,
            "metrics": [{"key": "m", "value": i, "timestamp": 1, "step": i} for i in range(950)],
            "params": [{"key": f"p{i}", "value": "1"} for i in range(60)],
        },
    )
    say("log parameter", "POST", "runs/log-parameter", {"run_id": r0, "key": "model", "value": "qwen"})
    say("log parameter other value", "POST", "runs/log-parameter", {"run_id": r0, "key": "model", "value": "llama"})
    say("log parameter too long", "POST", "runs/log-parameter", {"run_id": r0, "key": "long", "value": "x" * 6001})
    say("set tag", "POST", "runs/set-tag", {"run_id": r0, "key": "note", "value": "hello"})
    say("set tag again", "POST", "runs/set-tag", {"run_id": r0, "key": "note", "value": "bye"})
    say("delete tag", "POST", "runs/delete-tag", {"run_id": r0, "key": "note"})
    say("delete tag again", "POST", "runs/delete-tag", {"run_id": r0, "key": "note"})
    say("get run", "GET", f"runs/get?run_id={r0}")
    say("get unknown run", "GET", f"runs/get?run_id={'0' * 32}")
    say("get run without id", "GET", "runs/get")
    say("history", "GET", f"metrics/get-history?run_id={r0}&metric_key=loss")
    h = say("history page 1", "GET", f"metrics/get-history?run_id={r0}&metric_key=loss&max_results=2")
    if h.get("next_page_token"):
        say(
            "history page 2",
            "GET",
            f"metrics/get-history?run_id={r0}&metric_key=loss&max_results=2&page_token={quote(h['next_page_token'])}",
        )
    say("history nan", "GET", f"metrics/get-history?run_id={r0}&metric_key=odd")
    say("history inf", "GET", f"metrics/get-history?run_id={r0}&metric_key=inf")
    say("history of unknown metric", "GET", f"metrics/get-history?run_id={r0}&metric_key=none")
    say("history of unknown run", "GET", f"metrics/get-history?run_id={'0' * 32}&metric_key=loss")
    for i, r in enumerate(runs[1:], 1):
        say(
            f"metrics of {i}",
            "POST",
            "runs/log-batch",
            {
                "run_id": r,
                "metrics": [{"key": "loss", "value": 3.0 - i, "timestamp": 6000, "step": 1}],
                "params": [{"key": "lr", "value": f"0.{i}"}],
            },
        )
    say("update run", "POST", "runs/update", {"run_id": runs[1], "status": "FINISHED", "end_time": 6000})
    say("update run name", "POST", "runs/update", {"run_id": runs[1], "run_name": "renamed"})
    say("update run bad status", "POST", "runs/update", {"run_id": runs[1], "status": "DONE"})

    def ids(answer: Any) -> list[str]:
        return [names[each["info"]["run_id"]] for each in answer["runs"]]

    def search(label: str, **body: Any) -> Any:
        a = say(label, "POST", "runs/search", {"experiment_ids": [eid], **body})
        if isinstance(a, dict) and "runs" in a:
            said[-1]["answer"] = {
                "runs": ids(a),
                **({"next_page_token": "<token>"} if a.get("next_page_token") else {}),
            }
        return a

    search("search all")
    search("search metric", filter="metrics.loss < 1.5")
    search("search metric and param", filter="metrics.loss > 0 and params.lr = '0.1'")
    search("search param like", filter="params.lr LIKE '0.%'")
    search("search tag", filter="tags.source_run_id = 's2'")
    search("search tag backticks", filter="tags.`source_run_id` = 's3'")
    search("search tag not equal", filter="tags.nodes != '1'")
    search("search attribute status", filter="attributes.status = 'FINISHED'")
    search("search attribute short", filter="status = 'RUNNING'")
    search("search run name", filter="attributes.run_name = 'renamed'")
    search("search ilike", filter="run_name ILIKE 'RUN-%'")
    search("search start", filter="attributes.start_time >= 5002")
    search("search run_id in", filter=f"attributes.run_id IN ('{runs[1]}','{runs[2]}')")
    search("search run_id not in", filter=f"attributes.run_id NOT IN ('{runs[1]}','{runs[2]}')")
    search("search missing tag", filter="tags.none = 'x'")
    search("search none tag negative", filter="tags.none != 'x'")
    search("search or", filter="metrics.loss > 0 OR params.lr = '0.1'")
    search("search no quotes", filter="params.lr = 0.1")
    search("search metric quoted", filter="metrics.loss = '1'")
    search("search bad entity", filter="thing.loss = 1")
    search("search bad attribute", filter="attributes.nope = 'x'")
    search("search bad comparator", filter="params.lr > '0.1'")
    search("search order metric", order_by=["metrics.loss ASC"])
    search("search order metric desc", order_by=["metrics.loss DESC"])
    search("search order missing metric", order_by=["metrics.acc DESC"])
    search("search order param", order_by=["params.lr DESC"])
    search("search order start", order_by=["attributes.start_time ASC"])
    search("search order two", order_by=["tags.none", "start_time DESC"])
    search("search order bad", order_by=["loss sideways"])
    a = search("search page 1", max_results=3, order_by=["start_time ASC"])
    search("search page 2", max_results=3, order_by=["start_time ASC"], page_token=a.get("next_page_token"))
    search("search bad token", max_results=3, page_token="xx")
    search("search too many", max_results=50001)
    search("search zero", max_results=0)
    say("search no experiments", "POST", "runs/search", {"experiment_ids": []})
    say("delete run", "POST", "runs/delete", {"run_id": runs[3]})
    say("delete run again", "POST", "runs/delete", {"run_id": runs[3]})
    say("log to deleted run", "POST", "runs/log-metric", {"run_id": runs[3], "key": "x", "value": 1, "timestamp": 1})
    say("get deleted run", "GET", f"runs/get?run_id={runs[3]}")
    search("search active")
    search("search deleted", run_view_type="DELETED_ONLY")
    search("search both", run_view_type="ALL")
    say("restore run", "POST", "runs/restore", {"run_id": runs[3]})
    search("search restored")
    say("delete experiment", "POST", "experiments/delete", {"experiment_id": e2})
    say("delete experiment again", "POST", "experiments/delete", {"experiment_id": e2})
    say("get deleted experiment", "GET", "experiments/get-by-name?experiment_name=second")
    say("create deleted experiment", "POST", "experiments/create", {"name": "second"})
    say("run in deleted experiment", "POST", "runs/create", {"experiment_id": e2})
    say("search active experiments", "POST", "experiments/search", {"max_results": 10})
    say("search deleted experiments", "POST", "experiments/search", {"max_results": 10, "view_type": "DELETED_ONLY"})
    say("restore experiment", "POST", "experiments/restore", {"experiment_id": e2})
    say("rename experiment", "POST", "experiments/update", {"experiment_id": e2, "new_name": "third"})
    say("rename onto another", "POST", "experiments/update", {"experiment_id": e2, "new_name": "first"})
    say("unknown endpoint", "GET", "experiments/none")
    return said


def ask(base: str) -> Send:
    """Send to a server without signatures."""

    def send(method: str, path: str, body: Any) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        try:
            return status, json.loads(content)
        except ValueError:
            return status, {}

    return send


if __name__ == "__main__":
    json.dump(talk(ask(sys.argv[1])), sys.stdout, indent=1)
