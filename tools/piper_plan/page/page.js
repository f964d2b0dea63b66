// What a reader does with the page: pointer, keys, search, the panel of strategy lines.
"use strict";

const element = (id) => document.getElementById(id);
const step = new Step(JSON.parse(element("data").textContent));
const chart = new Chart(element("canvas"), step);
let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; chart.draw(); });
}

function make(name, text, attributes = {}) {
  const made = Object.assign(document.createElement(name), attributes);
  if (text !== undefined) made.textContent = text;
  return made;
}

// ------------------------------------------------------------------ facts about one instruction, or a moment's memory
function factsOf(row, i) {
  const facts = [["rank", /[-,]/.test(row.ranks) ? `${row.ranks} (names are those of rank ${parseInt(row.ranks, 10)})` : row.ranks], ["stream", row.streams[row.stream[i]]], ["instruction", `${i}`]];
  const kind = row.kind[i], transfer = step.transfers[row.transfer[i]];
  const object = step.strings[row.object[i]];
  if (kind === RUN || kind === UPDATE) facts.push(["program", `${step.programs[row.object[i]].name}, ${step.programs[row.object[i]].calls} calls`]);
  else if (object) facts.push([isCollective(kind) ? "over" : "channel", object]);
  if (kind === SEND || kind === RECV) facts.push([kind === SEND ? "to rank" : "from rank", step.strings[row.peer[i]]]);
  if (row.bytes[i] > 0) facts.push(["size", `${bytesText(row.bytes[i])} (${row.bytes[i]} bytes)`]);
  const time = (begin, end) => `${chart.timeText(begin)} to ${chart.timeText(end)}, ${chart.timeText(end - begin)}`;
  facts.push(["predicted", time(row.begin[i], row.end[i])]);
  if (transfer) facts.push(["in transfer", time(transfer.begin, transfer.end)]);
  if (row.measured) facts.push(["measured", time(row.measured.begin[i], row.measured.end[i])]);
  const origin = step.origin(row, i);
  if (origin) facts.push(["strategy", origin.why ? `${origin.text}: ${origin.why}` : origin.text]);
  const modules = step.modules(row, i);
  if (modules.length) facts.push(["model", modules.slice(0, 6).join("; ") + (modules.length > 6 ? `; and ${modules.length - 6} more` : "")]);
  return facts;
}
function memoryFacts(row, time) {
  const { times, bytes, peak } = step.memory(row);
  const now = bytes[Math.max(0, firstAtLeast(times, (t) => t, time + 1e-12) - 1)];
  return [["rank", row.ranks], ["alive", bytesText(now)], ["peak", bytesText(peak)], ["kept from step to step", bytesText(row.persistent)],
    ...step.largestAlive(row, time, 6).map(({ name, bytes: b }) => [bytesText(b), name])];
}
function show(box, title, facts) {
  const list = make("dl");
  for (const [name, value] of facts) list.append(make("dt", name), make("dd", value));
  const all = make("div", undefined, { className: "facts" });
  all.append(make("b", title), list);
  box.replaceChildren(all);
}
function keep(chosen) {
  chart.kept = chosen;
  if (!chosen) element("kept").textContent = "Click one to keep it here.";
  else show(element("kept"), `${KINDS[chosen.row.kind[chosen.i]]} ${step.strings[chosen.row.name[chosen.i]]}`, factsOf(chosen.row, chosen.i));
  redraw();
}
function hover(found, x, y) {
  const box = element("hover");
  chart.hovered = found && found.i >= 0 ? found : null;
  box.hidden = !found;
  if (found) {
    if (found.i < 0) show(box, "memory", memoryFacts(found.row, found.time));
    else show(box, `${KINDS[found.row.kind[found.i]]} ${step.strings[found.row.name[found.i]]}`, factsOf(found.row, found.i));
    box.style.left = `${Math.max(4, Math.min(x + 14, chart.width - box.offsetWidth - 8))}px`;
    box.style.top = `${y + 18 + box.offsetHeight < chart.visible ? y + 18 : Math.max(4, y - box.offsetHeight - 12)}px`;
  }
  redraw();
}

// ------------------------------------------------------------------ search
let finds = [], current = -1;
function search(query) {
  const wanted = query.trim().toLowerCase();
  finds = [];
  current = -1;
  chart.matches = wanted ? new Map() : null;
  if (wanted) for (const row of step.rows) {
    row.texts ??= Array.from({ length: row.count }, (_, i) => step.text(row, i));
    const found = new Uint8Array(row.count);
    for (let i = 0; i < row.count; ++i) if (row.texts[i].includes(wanted)) {
      found[i] = 1;
      if (row.kind[i] !== RECORD && row.kind[i] !== WAIT) finds.push({ row, i });
    }
    chart.matches.set(row, found);
  }
  finds.sort((a, b) => a.row.begin[a.i] - b.row.begin[b.i]);
  element("found").textContent = wanted ? `${finds.length} found` : "";
  for (const line of element("lines").rows) line.classList.toggle("chosen", line.dataset.key === query);
  redraw();
}
function toFind(direction) {
  if (!finds.length) return;
  current = (current + direction + finds.length) % finds.length;
  if (chart.layout === "depth" && finds[current].row !== chart.rowsShown()[0]) chooseLayout("time");
  element("found").textContent = `${current + 1} of ${finds.length}`;
  chart.reveal(finds[current]);
  keep(finds[current]);
}

// ------------------------------------------------------------------ panel
function fillPanel() {
  element("title").textContent = document.title = step.title;
  element("about").textContent = step.about;
  const classes = { F: "forward", B: "backward", I: "backward, input part", W: "backward, weight part", run: "other run", update: "update",
    message: "message", collective: "collective", wait: "wait" };
  const present = new Set(step.rows.flatMap((row) => [...new Set(row.class)]));
  for (const [name, meaning] of Object.entries(classes)) {
    if (!present.has(name)) continue;
    const item = make("span"), box = make("i");
    box.style.background = `var(--${name})`;
    item.append(box, meaning);
    element("legend").append(item);
  }
  const costs = step.costs().filter((cost) => cost.instructions).sort((a, b) => b.time - a.time);
  const head = make("tr");
  head.append(make("td", "line"), make("td", "predicted", { className: "n" }));
  if (step.measured) head.append(make("td", "measured", { className: "n" }));
  element("lines").append(head);
  for (const cost of costs) {
    const line = make("tr"), name = make("td"), choose = make("button", cost.text);
    line.dataset.key = cost.key;
    line.addEventListener("click", () => {
      const query = element("search").value === cost.key ? "" : cost.key;
      element("search").value = query;
      search(query);
    });
    name.append(choose);
    line.append(name, make("td", chart.timeText(cost.time), { className: "n" }));
    if (step.measured) line.append(make("td", chart.timeText(cost.measured), { className: "n" }));
    line.title = `${cost.instructions} instructions`;
    element("lines").append(line);
  }
  element("layout").append(make("option", "time line", { value: "time" }));
  step.rows.forEach((row, r) => element("layout").append(make("option", `dependences of rank ${clipped(row.ranks, 24)}`, { value: `${r}` })));
  element("measured-choice").hidden = !step.measured;
}
function chooseLayout(value) {
  element("layout").value = value;
  chart.layout = value === "time" ? "time" : "depth";
  if (value !== "time") chart.row = +value;
  if (chart.kept && chart.layout === "depth" && chart.kept.row !== chart.rowsShown()[0]) keep(null);
  chart.fit();
  if (chart.kept) { chart.draw(); chart.reveal(chart.kept); }
  redraw();
}

// ------------------------------------------------------------------ pointer
const canvas = element("canvas");
let grabbed = null;
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.ctrlKey) chart.pan(0, event.deltaY);
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) chart.pan(event.deltaX || event.deltaY);
  else chart.zoom(Math.exp(-event.deltaY / 400), event.offsetX);
  redraw();
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => {
  grabbed = { x: event.offsetX, y: event.offsetY, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!grabbed) return hover(chart.at(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  const right = event.offsetX - grabbed.x, down = event.offsetY - grabbed.y;
  if (!grabbed.moved && Math.hypot(right, down) < 4) return;
  chart.pan(-right, -down);
  grabbed = { x: event.offsetX, y: event.offsetY, moved: true };
  redraw();
});
canvas.addEventListener("pointerup", (event) => {
  if (grabbed && !grabbed.moved) {
    const found = chart.at(event.offsetX, event.offsetY);
    keep(found && found.i >= 0 ? found : null);
  }
  grabbed = null;
});
canvas.addEventListener("pointerleave", () => hover(null));

// ------------------------------------------------------------------ keys and buttons
function toNeighbour(direction) {
  const row = chart.kept ? chart.kept.row : chart.rowsShown()[0];
  const lane = (chart.kept ? row.lanes[row.stream[chart.kept.i]] : row.lanes[0]).filter((i) => row.kind[i] !== WAIT);
  const at = chart.kept ? lane.indexOf(chart.kept.i) + direction : 0;
  if (at < 0 || at >= lane.length) return;
  const next = { row, i: lane[at] };
  chart.reveal(next);
  keep(next);
}
function otherTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  chart.readColours();
  redraw();
}
const ACTIONS = {
  "+": () => chart.zoom(1.5), "=": () => chart.zoom(1.5), "-": () => chart.zoom(1 / 1.5), "0": () => chart.fit(),
  ArrowLeft: () => chart.pan(-chart.width / 10), ArrowRight: () => chart.pan(chart.width / 10),
  ArrowUp: () => chart.pan(0, -40), ArrowDown: () => chart.pan(0, 40),
  PageUp: () => chart.pan(0, -chart.visible), PageDown: () => chart.pan(0, chart.visible),
  n: () => toNeighbour(1), p: () => toNeighbour(-1), t: otherTheme,
  g: () => chooseLayout(chart.layout === "time" ? `${step.rows.indexOf(chart.kept?.row ?? step.rows[chart.row])}` : "time"),
  "?": () => { element("keys").hidden = !element("keys").hidden; },
  "/": () => element("search").focus(),
  Escape: () => { element("search").value = ""; search(""); keep(null); element("keys").hidden = true; },
};
document.addEventListener("keydown", (event) => {
  hover(null);
  const typing = event.target === element("search");
  if (typing && event.key === "Enter") return toFind(event.shiftKey ? -1 : 1);
  if (typing && event.key !== "Escape" || event.target.tagName === "SELECT" || event.altKey || event.metaKey || event.ctrlKey) return;
  const action = ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  if (event.key === "Escape") canvas.focus();
  action();
  redraw();
});
for (const [id, key] of [["fit", "0"], ["out", "-"], ["in", "+"], ["theme", "t"], ["help", "?"]])
  element(id).addEventListener("click", () => { ACTIONS[key](); redraw(); });
for (const id of ["streams", "messages", "memory", "measured"]) {
  element(id).checked = chart.show[id];
  element(id).addEventListener("change", () => { chart.show[id] = element(id).checked; redraw(); });
}
element("layout").addEventListener("change", (event) => chooseLayout(event.target.value));
element("search").addEventListener("input", (event) => search(event.target.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { chart.readColours(); redraw(); });
new ResizeObserver(redraw).observe(element("chart"));

fillPanel();
chart.draw();
