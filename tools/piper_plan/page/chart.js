// Draws a Step on the canvas, and finds what lies under a point. One of two layouts: "time" shows all rows, "depth" the
// dependences of one, where a box's place is the number of instructions in front of it on the longest way.
"use strict";

const GUTTER = 150, AXIS = 24, LANE = 17, THIN = 9, CURVE = 34, GAP = 8, LETTER = 6.2;  // pixels
const WAIT_PART = 4;       // waits are so much thinner than what is done
const MOST_ARROWS = 4000;  // more are not drawn at once, but for those of the kept instruction
const FADED = 0.18;        // how much is left of what a search does not find
const APART = 4;           // pixels between marks that have no length: closer ones would fill the row, and none could be read

class Chart {
  constructor(canvas, step) {
    Object.assign(this, { canvas, step, context: canvas.getContext("2d"), layout: "time", row: 0, top: 0, matches: null, kept: null,
      hovered: null });
    this.show = { streams: true, messages: true, memory: step.rows.length <= 16, measured: step.measured };
    this.readColours();
    this.fit();
  }

  readColours() {
    const probe = document.createElement("span");
    document.body.append(probe);
    this.colours = {};
    for (const name of ["back", "panel", "lane", "rule", "text", "faint", "F", "B", "I", "W", "run", "update", "message", "collective",
      "wait", "arrow", "mark", "curve", "on-box"]) {
      probe.style.color = `var(--${name})`;
      this.colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
  }

  // ---------------------------------------------------------------- what is where
  rowsShown() { return this.layout === "time" ? this.step.rows : [this.step.dependences(this.step.rows[this.row])]; }
  beginOf(row, i) { return this.layout === "time" ? row.begin[i] : row.depth[i]; }
  endOf(row, i) { return this.layout === "time" ? row.end[i] : row.depth[i] + 0.8; }
  length() {
    if (this.layout === "depth") return largest(this.rowsShown()[0].depth) + 1;
    return Math.max(this.step.length, this.show.measured ? this.step.measuredLength : 0, 1e-9);
  }
  unit() { return this.layout === "time" ? this.step.unit : "instructions"; }
  fit() { Object.assign(this, { from: 0, to: this.length() * 1.01, top: 0 }); }
  x(time) { return GUTTER + (time - this.from) / (this.to - this.from) * (this.width - GUTTER); }
  time(x) { return this.from + (x - GUTTER) / (this.width - GUTTER) * (this.to - this.from); }

  // Bands from top to bottom, in pixels from the first one's top: { y, height, row, kind: lane | measured | curve, lane }.
  bands() {
    const bands = [];
    let y = GAP;
    const add = (height, band) => { bands.push({ y, height, ...band }); y += height + 1; };
    for (const row of this.rowsShown()) {
      const lanes = row.lanes.map((lane, stream) => stream).filter((s) => row.lanes[s].some((i) => row.kind[i] !== WAIT));
      const shown = this.show.streams || this.layout === "depth" ? lanes : lanes.filter((s) => row.lanes[s].some((i) => row.kind[i] === RUN));
      shown.forEach((stream, n) => {
        add(LANE, { kind: "lane", row, lane: stream, first: n === 0 });
        if (this.show.measured && row.measured && this.layout === "time") add(THIN, { kind: "measured", row, lane: stream });
      });
      if (this.show.memory && this.layout === "time") add(CURVE, { kind: "curve", row });
      y += GAP;
    }
    this.height = y;
    return bands;
  }
  // Where an instruction's box is: of its own lane, or of the row's first where its stream is not shown.
  placeOf(row, i) {
    const bands = this.places.get(row);
    if (!bands) return null;
    const band = bands.byLane[row.stream[i]] ?? bands.first;
    return band && { y: band.y + AXIS - this.top, height: band.height };
  }

  // ---------------------------------------------------------------- drawing
  draw() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.visible = this.canvas.clientHeight;
    if (this.canvas.width !== Math.round(this.width * ratio) || this.canvas.height !== Math.round(this.visible * ratio)) {
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(this.visible * ratio);
    }
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = this.colours.back;
    c.fillRect(0, 0, this.width, this.visible);
    c.font = "11px ui-monospace, Menlo, Consolas, monospace";
    c.textBaseline = "middle";
    this.placed = this.bands();
    this.top = Math.min(Math.max(this.top, 0), Math.max(0, this.height + AXIS - this.visible));
    this.places = new Map();
    for (const band of this.placed) {
      const known = this.places.get(band.row) ?? { byLane: {}, first: null };
      if (band.kind === "lane") {
        known.byLane[band.lane] = band;
        known.first ??= band;
      }
      this.places.set(band.row, known);
    }
    this.drawAxis(false);
    c.save();
    c.beginPath();
    c.rect(GUTTER, AXIS, this.width - GUTTER, this.visible - AXIS);
    c.clip();
    const seen = this.placed.filter(({ y, height }) => y + height >= this.top && y <= this.top + this.visible);
    this.longLabels = this.roomForLong();
    for (const band of seen) this.drawBand(band);
    if (this.show.messages) this.drawArrows();
    this.drawKept();
    c.restore();
    this.drawGutter(seen);
    this.drawAxis(true);
    this.drawScrollMark();
  }

  drawBand(band) {
    const c = this.context, y = band.y + AXIS - this.top;
    if (band.kind === "curve") return this.drawCurve(band.row, y);
    c.fillStyle = this.colours.lane;
    if (band.kind === "lane") c.fillRect(GUTTER, y, this.width - GUTTER, band.height);
    const found = this.matches?.get(band.row);
    if (!this.matches) this.drawBoxes(band, y, () => true, 1);
    else {
      this.drawBoxes(band, y, (i) => !found?.[i], FADED);
      if (found) this.drawBoxes(band, y, (i) => found[i], 1);
    }
  }

  drawBoxes({ row, lane, kind, height }, y, wanted, opacity) {
    const c = this.context, all = row.lanes[lane], real = kind === "measured";
    const begin = real ? (i) => row.measured.begin[i] : (i) => this.beginOf(row, i);
    const end = real ? (i) => row.measured.end[i] : (i) => this.endOf(row, i);
    const waits = this.layout === "time" && all.some((i) => row.kind[i] === RUN);  // where a wait is time lost
    let reached = -Infinity, reachedClass = "", lastMark = -Infinity;
    for (let k = firstAtLeast(all, end, this.from); k < all.length; ++k) {
      const i = all[k], x = this.x(begin(i));
      if (x > this.width) break;
      if (row.kind[i] === WAIT && !waits || !wanted(i)) continue;
      const right = Math.max(this.x(end(i)), x + (row.kind[i] === WAIT ? 0 : 1.2)), type = row.class[i];
      if (right <= reached + 0.4 && type === reachedClass || right <= x) continue;  // nothing of it would be seen
      const transfer = this.step.transfers[row.transfer[i]];
      if (transfer && !real && this.layout === "time" && this.x(end(i)) - this.x(Math.max(transfer.begin, begin(i))) < 1) {
        if (right < lastMark + APART) continue;
        lastMark = right;
      }
      reached = right;
      reachedClass = type;
      c.globalAlpha = opacity;
      this.drawBox(row, i, x, y, right - x, height, type, real);
    }
    c.globalAlpha = 1;
  }

  // Passes are labelled alike: all that are seen in full, or all in short where one of them has no room.
  roomForLong() {
    const scale = (this.width - GUTTER) / (this.to - this.from);
    for (const row of this.rowsShown())
      for (let i = 0; i < row.count; ++i) {
        const length = this.endOf(row, i) - this.beginOf(row, i);
        if (this.endOf(row, i) < this.from || this.beginOf(row, i) > this.to) continue;
        if (row.pass[i] && length > 0 && length * scale < this.step.label(row, i).length * LETTER + 6) return false;
      }
    return true;
  }

  drawBox(row, i, x, y, width, height, type, real) {
    const c = this.context, transfer = this.step.transfers[row.transfer[i]], opacity = c.globalAlpha;
    c.fillStyle = this.colours[type];
    c.globalAlpha = opacity * this.step.shade(row, i);
    const inner = width > 3 ? width - 0.8 : width;
    if (transfer && !real && this.layout === "time" && transfer.begin > row.begin[i]) {
      // Before the transfer its end waits for the others.
      const moved = Math.max(this.x(transfer.begin), x);
      c.globalAlpha = opacity * 0.5;
      c.fillRect(x, y, Math.max(moved - x, 0), height / WAIT_PART);
      c.globalAlpha = opacity;
      c.fillRect(moved, y, Math.max(x + inner - moved, 1.2), height);
    } else {
      c.fillRect(x, y, inner, type === "wait" ? height / WAIT_PART : height);
    }
    c.globalAlpha = opacity;
    if (type === "wait" || real || height < LANE) return;
    const left = Math.max(x, GUTTER), room = Math.min(x + width, this.width) - left;
    const long = this.step.label(row, i), short = this.step.shortLabel(row, i);
    const label = long.length * LETTER + 6 <= room && (this.longLabels || !row.pass[i]) ? long : short && short.length * LETTER + 1 <= room ? short : "";
    if (label) {
      c.fillStyle = this.colours[transfer && this.layout === "time" ? "text" : "on-box"];  // ends of transfers are mostly pale
      c.textAlign = "center";
      c.fillText(label, left + room / 2, y + height / 2 + 0.5);
    }
  }

  drawCurve(row, y) {
    const c = this.context, { times, bytes, peak } = this.step.memory(row);
    const level = (b) => y + CURVE - 2 - (peak > 0 ? b / peak : 0) * (CURVE - 6);
    let k = Math.max(0, firstAtLeast(times, (t) => t, this.from) - 1);
    c.beginPath();
    c.moveTo(GUTTER, y + CURVE - 2);
    c.lineTo(GUTTER, level(bytes[k]));
    let now = bytes[k];
    while (k + 1 < times.length && times[k + 1] <= this.to) {
      // Steps within one pixel show as the highest of them.
      const pixel = this.x(times[++k]);
      let highest = bytes[k];
      while (k + 1 < times.length && this.x(times[k + 1]) < pixel + 1) highest = Math.max(highest, bytes[++k]);
      c.lineTo(pixel, level(now));
      c.lineTo(pixel, level(highest));
      now = bytes[k];
      c.lineTo(pixel, level(now));
    }
    const last = Math.min(this.width, this.x(this.length()));
    c.lineTo(last, level(now));
    c.lineTo(last, y + CURVE - 2);
    c.strokeStyle = this.colours.curve;
    c.stroke();
    c.globalAlpha = 0.22;
    c.fillStyle = this.colours.curve;
    c.fill();
    c.globalAlpha = 1;
  }

  isMessage(ends) { return this.step.rows[ends[0]].kind[ends[1]] === SEND; }
  // Of a message from sender to receiver; of a dependence from what comes first.
  drawArrows() {
    const c = this.context;
    c.strokeStyle = this.colours.arrow;
    c.lineWidth = 1;
    const seen = [];
    if (this.layout === "depth") {
      const [row] = this.rowsShown();
      for (const [from, to] of row.edges) {
        if (row.depth[to] < this.from || row.depth[from] > this.to) continue;
        seen.push([row, from, this.endOf(row, from), row, to, this.beginOf(row, to)]);
        if (seen.length > MOST_ARROWS) return;
      }
    } else {
      // By what goes one way, on one stream from one row to another: where most arrows would fall on their neighbours, none
      // is drawn before one zooms in.
      const ways = new Map();
      for (const { begin, end, ends } of this.step.transfers) {
        if (!this.isMessage(ends) || end < this.from || begin > this.to) continue;
        const way = `${ends[0]} ${ends[2]} ${this.step.rows[ends[0]].stream[ends[1]]}`, x = this.x(begin);
        if (!ways.has(way)) ways.set(way, { arrows: [], close: 0, last: -Infinity });
        const known = ways.get(way);
        known.close += Math.abs(x - known.last) < APART;
        known.last = x;
        known.arrows.push([this.step.rows[ends[0]], ends[1], begin, this.step.rows[ends[2]], ends[3], end]);
      }
      for (const { arrows, close } of ways.values()) if (2 * close <= arrows.length) seen.push(...arrows);
      if (seen.length > MOST_ARROWS) return;
    }
    for (const arrow of seen) {
      const [fromRow, from, , toRow, to] = arrow;
      c.globalAlpha = !this.matches || this.matches.get(fromRow)?.[from] || this.matches.get(toRow)?.[to] ? 1 : FADED;
      this.drawArrow(...arrow);
    }
    c.globalAlpha = 1;
  }
  drawArrow(fromRow, from, begin, toRow, to, end) {
    const a = this.placeOf(fromRow, from), b = this.placeOf(toRow, to), c = this.context;
    if (!a || !b) return;
    const down = b.y > a.y, x0 = this.x(begin), x1 = this.x(end);
    const y0 = a.y + (down ? a.height : 0), y1 = b.y + (down ? 0 : b.height);
    if (Math.max(y0, y1) < AXIS || Math.min(y0, y1) > this.visible) return;
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    const angle = Math.atan2(y1 - y0, x1 - x0);
    for (const side of [-0.4, 0.4]) {
      c.moveTo(x1, y1);
      c.lineTo(x1 - 6 * Math.cos(angle + side), y1 - 6 * Math.sin(angle + side));
    }
    c.stroke();
  }

  // The kept instruction and the one under the pointer, with all ends of their transfers.
  drawKept() {
    for (const chosen of [this.hovered, this.kept]) {
      if (!chosen) continue;
      const { row, i } = chosen, c = this.context, place = this.placeOf(row, i);
      if (!place) continue;
      const transfer = this.step.transfers[row.transfer[i]];
      c.strokeStyle = this.colours.mark;
      c.lineWidth = 2;
      const x = this.x(this.beginOf(row, i));
      c.strokeRect(x, place.y, Math.max(this.x(this.endOf(row, i)) - x, 2), place.height);
      if (this.layout === "time" && transfer) {
        c.lineWidth = 1.5;
        const rows = this.step.rows, { ends, begin, end } = transfer;
        if (this.isMessage(ends)) this.drawArrow(rows[ends[0]], ends[1], begin, rows[ends[2]], ends[3], end);
        else for (let k = 0; k < ends.length; k += 2) {
          const other = this.placeOf(rows[ends[k]], ends[k + 1]);
          if (other) c.strokeRect(this.x(begin), other.y, Math.max(this.x(end) - this.x(begin), 2), other.height);
        }
      }
      c.lineWidth = 1;
    }
  }

  drawGutter(seen) {
    const c = this.context;
    c.fillStyle = this.colours.back;
    c.fillRect(0, 0, GUTTER, this.visible);
    c.textAlign = "left";
    for (const band of seen) {
      const y = band.y + AXIS - this.top + band.height / 2;
      if (y < AXIS) continue;
      c.fillStyle = band.first ? this.colours.text : this.colours.faint;
      if (band.first) {
        c.font = "bold 11px ui-monospace, Menlo, Consolas, monospace";
        c.fillText(clipped(band.row.ranks, 7), 8, y);
        c.font = "11px ui-monospace, Menlo, Consolas, monospace";
      }
      c.fillStyle = this.colours.faint;
      const text = band.kind === "lane" ? withRanges(band.row.streams[band.lane]) : band.kind === "measured" ? "measured" : `memory ${bytesText(this.step.memory(band.row).peak)}`;
      c.textAlign = "right";
      if (band.kind !== "measured" || band.height >= THIN) c.fillText(clipped(text, band.first ? 13 : 21), GUTTER - 6, y);
      c.textAlign = "left";
    }
  }

  drawAxis(labels) {
    const c = this.context, span = this.to - this.from;
    let mark = 10 ** Math.floor(Math.log10(span / 8));
    for (const factor of [2, 2.5, 2]) if (span / mark > 12) mark *= factor;
    if (labels) {
      c.fillStyle = this.colours.back;
      c.fillRect(0, 0, this.width, AXIS);
      c.fillStyle = this.colours.faint;
      c.textAlign = "left";
      c.fillText(`rank${this.layout === "time" ? "" : " (depth)"}`, 8, AXIS / 2);
    }
    c.strokeStyle = this.colours.rule;
    c.textAlign = "center";
    for (let k = Math.ceil(this.from / mark); k * mark <= this.to; ++k) {
      const x = Math.round(this.x(k * mark)) + 0.5;
      if (x < GUTTER) continue;
      c.beginPath();
      c.moveTo(x, labels ? AXIS - 5 : AXIS);
      c.lineTo(x, labels ? AXIS : this.visible);
      c.stroke();
      if (labels && x + 24 < this.width) c.fillText(this.timeText(k * mark, mark), x, AXIS / 2 - 1);
    }
  }
  timeText(time, resolution = time / 1000) {
    if (this.unit() !== "us") return `${+time.toPrecision(resolution < time / 1e5 ? 8 : 6)} ${this.unit()}`;
    const digits = Math.max(0, -Math.floor(Math.log10(Math.max(resolution, 1e-6) / (this.to > 2000 ? 1000 : 1))));
    return this.to > 2000 ? `${(time / 1000).toFixed(Math.min(digits, 6))} ms` : `${time.toFixed(Math.min(digits, 3))} us`;
  }

  drawScrollMark() {
    const all = this.height + AXIS;
    if (all <= this.visible) return;
    this.context.fillStyle = this.colours.faint;
    this.context.fillRect(this.width - 5, AXIS + this.top / all * (this.visible - AXIS), 4, this.visible / all * (this.visible - AXIS));
  }

  // ---------------------------------------------------------------- what is under a point, moving
  at(x, y) {
    if (x < GUTTER || y < AXIS) return null;
    const inside = y - AXIS + this.top, time = this.time(x);
    const band = this.placed.find((b) => inside >= b.y && inside <= b.y + b.height);
    if (!band) return null;
    if (band.kind === "curve") return { row: band.row, time, i: -1 };
    const { row } = band, all = row.lanes[band.lane], slack = 2 * (this.to - this.from) / (this.width - GUTTER);
    const begin = band.kind === "measured" ? (i) => row.measured.begin[i] : (i) => this.beginOf(row, i);
    const end = band.kind === "measured" ? (i) => row.measured.end[i] : (i) => this.endOf(row, i);
    let best = null, distance = slack, waiting = null;  // a wait only where nothing else is near
    for (let k = firstAtLeast(all, end, time - slack); k < all.length && begin(all[k]) <= time + slack; ++k) {
      const i = all[k], away = Math.max(begin(i) - time, time - end(i), 0);
      if (row.kind[i] === WAIT) waiting = away === 0 ? i : waiting;
      else if (away < distance || away === 0) { best = i; distance = away; }
    }
    best ??= waiting;
    return best === null ? null : { row, time, i: best };
  }

  zoom(factor, x = GUTTER + (this.width - GUTTER) / 2) {
    const centre = this.time(Math.max(x, GUTTER)), least = this.length() * 1e-6;
    if ((this.to - this.from) / factor < least) factor = (this.to - this.from) / least;
    this.from = centre - (centre - this.from) / factor;
    this.to = centre + (this.to - centre) / factor;
    this.keepInside();
  }
  pan(pixels, down = 0) {
    const time = pixels * (this.to - this.from) / (this.width - GUTTER);
    this.from += time;
    this.to += time;
    this.top += down;
    this.keepInside();
  }
  keepInside() {
    const most = this.length() * 1.01, span = Math.min(this.to - this.from, most);
    this.from = Math.min(Math.max(this.from, 0), most - span);
    this.to = this.from + span;
  }
  reveal({ row, i }) {
    const begin = this.beginOf(row, i), end = this.endOf(row, i), span = this.to - this.from;
    if (begin < this.from || end > this.to || end - begin < span / 400) {
      const wide = Math.max(Math.min(span, (end - begin) * 30 || span), this.length() * 1e-5);
      Object.assign(this, { from: (begin + end - wide) / 2, to: (begin + end + wide) / 2 });
      this.keepInside();
    }
    const place = this.placeOf(row, i);
    if (place && (place.y < AXIS || place.y + place.height > this.visible)) this.top += place.y - this.visible / 2;
  }
}

// The first k for which value(all[k]) >= wanted; values ascend.
function firstAtLeast(all, value, wanted) {
  let low = 0, high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(all[middle]) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
function clipped(text, letters) { return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`; }
// "ep:0,1,2,3" as "ep:0-3".
function withRanges(text) {
  return text.replace(/\d+(,\d+){2,}/g, (list) => {
    const ranks = list.split(",").map(Number);
    return ranks.every((rank, k) => rank === ranks[0] + k) ? `${ranks[0]}-${ranks.at(-1)}` : list;
  });
}
