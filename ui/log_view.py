"""The page that shows a log while it is written: the browser reads the gateway's event stream by itself.

It is drawn in a frame of the console's pages (ui/logs.py), and can be opened alone. Text of a log is text here: it is
never read as HTML.
"""

from __future__ import annotations

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title} · InstantStart</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
html,body{{height:100%;margin:0}}
body{{display:flex;flex-direction:column;background:#10201f;color:#d7e4e2;font:13px/1.5 system-ui}}
header{{display:flex;flex-wrap:wrap;gap:.2rem 1rem;align-items:center;padding:.35rem .7rem;background:#1b302f}}
#state{{flex:1 1 16rem;min-width:0;overflow:hidden;text-overflow:ellipsis}}
label{{white-space:nowrap;cursor:pointer}}
#log{{flex:1;overflow:auto;margin:0;padding:.4rem .7rem;font:12px/1.5 "DejaVu Sans Mono",ui-monospace,monospace;
  white-space:pre;overflow-anchor:auto}}
#log.wrap{{white-space:pre-wrap;overflow-wrap:anywhere}}
#log:focus-visible{{outline:2px solid #5eead4;outline-offset:-2px}}
.t,.p{{color:#7f9a98}} #log.untimed .t{{display:none}}
.error{{color:#ff9b92}} .warning{{color:#f8cf7a}} .debug{{color:#8aa3a1}} .gap{{color:#f8cf7a;font-style:italic}}
button{{font:inherit;background:#0f766e;color:#fff;border:0;border-radius:.3rem;padding:.1rem .6rem;cursor:pointer}}
[hidden]{{display:none}}
</style>
<header><span id="state" role="status">Connecting…</span>
<button id="newest" hidden>To the newest line</button>
<label><input id="times" type="checkbox" checked> Times</label>
<label><input id="wrap" type="checkbox"> Wrap</label></header>
<pre id="log" tabindex="0" aria-label="{title}"></pre>
<script nonce="{nonce}">{script}</script></html>"""

SCRIPT = """
"use strict";
const MOST = 4000, log = document.getElementById("log"), state = document.getElementById("state");
const newest = document.getElementById("newest");
let last = null, waiting = [], drawing = false, follows = true, merged = false, count = 0, over = false;

const say = text => { state.textContent = text; };
const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
log.addEventListener("scroll", () => { follows = atEnd(); newest.hidden = follows; });
newest.addEventListener("click", () => { log.scrollTop = log.scrollHeight; });
document.getElementById("times").addEventListener("change",
  event => log.classList.toggle("untimed", !event.target.checked));
document.getElementById("wrap").addEventListener("change",
  event => { log.classList.toggle("wrap", event.target.checked); if (follows) log.scrollTop = log.scrollHeight; });

function piece(kind, text) {
  const span = document.createElement("span");
  span.className = kind; span.textContent = text;
  return span;
}
function row(line) {
  const drawn = document.createElement("div");
  if (line.gap) { drawn.className = "gap"; drawn.textContent = line.gap; return drawn; }
  const at = new Date(line.at);
  const time = at.toLocaleTimeString([], {hour12: false}) + "." + String(at.getMilliseconds()).padStart(3, "0");
  drawn.append(piece("t", time + " "));
  if (merged) drawn.append(piece("p", line.rank === null ? line.pod + " " : "[" + line.rank + "] "));
  drawn.append(piece(line.level || "info", line.text));
  drawn.title = line.pod + " / " + line.container + "  " + at.toLocaleString();
  return drawn;
}
function add(lines) {
  waiting.push(...lines);
  if (waiting.length > MOST) waiting.splice(0, waiting.length - MOST);
  // Without a frame to draw (another tab is looked at), what waits is still bounded.
  if (!drawing) { drawing = true; requestAnimationFrame(draw); }
}
function draw() {
  drawing = false;
  const part = document.createDocumentFragment();
  for (const line of waiting) part.append(row(line));
  waiting = [];
  log.append(part);
  for (let more = log.childElementCount - MOST; more > 0; more--) log.firstChild.remove();
  if (follows) log.scrollTop = log.scrollHeight; else newest.hidden = false;
}
function told(pods) {
  const by = {};
  for (const each of pods) by[each.state] = (by[each.state] || 0) + 1;
  merged = pods.length > 1;
  const words = Object.entries(by).map(([name, number]) => number + " " + name).join(", ");
  say(pods.length === 1 ? pods[0].pod + " / " + pods[0].container + ": " + pods[0].state +
    (pods[0].detail ? " (" + pods[0].detail + ")" : "") : pods.length + " containers: " + words);
}
function heard(name, data) {
  if (name === "lines") { count += data.lines.length; add(data.lines); }
  else if (name === "pods") told(data.pods);
  else if (name === "gap") {
    add([{gap: "… lines of " + data.pod + " / " + data.container + " are missing: " + data.why}]);
  }
  else if (name === "problem") { over = true; say((data.detail || data.title) + ". " + (data.remedy || "")); }
  else if (name === "end") {
    over = true;
    const why = data.reason === "gone" ? "The pod is gone." : "It has ended; this was the last line.";
    say(count ? why : "It has printed nothing that is asked for here.");
  }
}
function event(block) {
  let name = "message", data = [], id = null;
  for (const line of block.split("\\n")) {
    const colon = line.indexOf(":"), field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
    else if (field === "id") id = value;
  }
  if (data.length) heard(name, JSON.parse(data.join("\\n")));
  if (id !== null) last = id;
}
async function read(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text = (text + value).replace(/\\r\\n?/g, "\\n");
    const blocks = text.split("\\n\\n");
    text = blocks.pop();
    blocks.forEach(event);
  }
}
async function follow() {
  while (!over) {
    try {
      const answer = await fetch("/logs/stream" + location.search,
        {headers: last === null ? {} : {"Last-Event-ID": last}, cache: "no-store"});
      if (answer.ok) {
        if (!count) say("Nothing is printed yet.");
        await read(answer);
      } else {
        const problem = await answer.json().catch(() => ({detail: "The gateway answered " + answer.status}));
        if (answer.status < 500 && answer.status !== 429) { heard("problem", problem); return; }
        say("Not up to date: " + problem.detail);
      }
    } catch (error) {
      if (!over) say("Not up to date: the connection was lost, and is made anew.");
    }
    if (!over) await new Promise(wait => setTimeout(wait, 1500));
  }
}
follow();
"""
