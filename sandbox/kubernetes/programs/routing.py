"""SGLang's router: https://docs.sglang.ai/advanced_features/router.html"""

from __future__ import annotations

import re

from .arguments import Grammar, parse
from .model import ROUTER, Discovery, Exit, Program, Server, Surroundings

START_SECONDS = 5.0
POLICIES = (
    *("random", "round_robin", "cache_aware", "power_of_two", "bucket"),
    *("manual", "consistent_hashing", "prefix_hash"),
)

_FLAGS = """
    service-discovery pd-disaggregation mini-lb disable-retries disable-circuit-breaker dp-aware enable-igw help
    enable-trace history-backend-memory disable-load-monitor dp-minimum-tokens-scheduler enable-wasm
    """
_VALUED = """
    host port policy prefill-policy decode-policy worker-startup-timeout-secs worker-startup-check-interval
    cache-threshold balance-abs-threshold balance-rel-threshold eviction-interval eviction-interval-secs
    max-tree-size max-payload-size api-key log-dir log-level service-discovery-port service-discovery-namespace
    bootstrap-port-annotation prometheus-port prometheus-host request-timeout-secs retry-max-retries
    retry-initial-backoff-ms retry-max-backoff-ms retry-backoff-multiplier retry-jitter-factor
    max-concurrent-requests queue-size queue-timeout-secs rate-limit-tokens-per-second health-failure-threshold
    health-success-threshold health-check-timeout-secs health-check-interval-secs health-check-endpoint model-path
    tokenizer-path chat-template reasoning-parser tool-call-parser backend history-backend mcp-config-path
    otlp-traces-endpoint shutdown-grace-period-secs
    """
_LISTS = "worker-urls selector prefill decode prefill-selector decode-selector request-id-headers cors-allowed-origins"

LAUNCH = Grammar(
    flags=frozenset(f"--{name}" for name in _FLAGS.split()),
    valued=frozenset(f"--{name}" for name in _VALUED.split()),
    lists=frozenset(f"--{name}" for name in _LISTS.split()),
    aliases={"-h": "--help"},
    families=re.compile(
        r"--(cb|tls|oracle|postgres|redis|tokenizer-cache|prefix-hash|wasm|server|jwt|control-plane)-[a-z0-9-]+"
    ),
)


def launch(words: list[str], around: Surroundings) -> Program:
    """``words``: what follows ``python -m sglang_router.launch_router``."""
    options = parse(words, LAUNCH)
    policy, problem = options.get("--policy", "cache_aware"), ""
    if options.incomplete:
        problem = f"argument {options.incomplete}: expected one argument"
    elif options.unknown:
        problem = f"unrecognized arguments: {' '.join(options.unknown)}"
    elif policy not in POLICIES:
        choices = ", ".join(repr(name) for name in POLICIES)
        problem = f"argument --policy: invalid choice: '{policy}' (choose from {choices})"
    if problem:
        lines = ("usage: launch_router.py [-h] [--worker-urls ...]", f"launch_router.py: error: {problem}")
        return Program(ROUTER, exit=Exit(2.0, 2, lines))
    selects = options.has("--service-discovery")
    discovery = Discovery(
        selector=",".join(options.all("--selector")) if selects else "",
        namespace=options.get("--service-discovery-namespace") or None,
        port=options.number("--service-discovery-port", 80),
        urls=tuple(url for url in options.all("--worker-urls") if url),
        policy=policy,
    )
    port = options.number("--port", 30_000)
    metrics_port = options.number("--prometheus-port", 29_000)
    found = f"selector: {discovery.selector}, port: {discovery.port}" if selects else f"urls: {list(discovery.urls)}"
    return Program(
        ROUTER,
        (
            (1.0, f"{{date}}  INFO sglang_router_rs::server: Starting router on 0.0.0.0:{port} | policy: {policy}"),
            (2.0, f"{{date}}  INFO sglang_router_rs::service_discovery: Starting service discovery | {found}"),
            (START_SECONDS, "{date}  INFO sglang_router_rs::server: Router ready"),
        ),
        START_SECONDS,
        Server(
            ROUTER,
            port,
            reachable=options.get("--host", "0.0.0.0") not in ("127.0.0.1", "localhost"),
            keyed=options.has("--api-key"),
            metrics=False,
            metrics_port=metrics_port,
            discovery=discovery,
        ),
    )
