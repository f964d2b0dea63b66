// The step that the page shows: the embedded data as typed arrays, and what follows from them. Knows nothing of drawing.
"use strict";

// In the order of plan::Action.
const KINDS = ["run", "send", "recv", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "record", "wait", "update"];
const [RUN, SEND, RECV, , , , ALL_TO_ALL, RECORD, WAIT, UPDATE] = KINDS.keys();
const isCollective = (kind) => kind > RECV && kind <= ALL_TO_ALL;

// How many ranks "0,2-3" are.
function membersOf(ranks) {
  return ranks.split(",").reduce((sum, part) => {
    const [first, last = first] = part.split("-").map(Number);
    return sum + last - first + 1;
  }, 0);
}

class Step {
  constructor(data) {
    Object.assign(this, { title: data.title, about: data.about, unit: data.unit, length: data.step, strings: data.strings, origins: data.origins,
      programs: data.programs, strategy: data.strategy });
    this.rows = data.rows.map((row) => this.readRow(row));
    this.readTransfers(data.transfers);
    this.measured = this.rows.some((row) => row.measured);
    this.measuredLength = this.measured ? Math.max(...this.rows.map((row) => largest(row.measured.end))) : 0;
  }

  readRow(row) {
    const read = { ranks: row.ranks, members: membersOf(row.ranks), streams: row.streams, buffers: row.buffers, persistent: row.persistent, count: row.kind.length,
      begin: Float64Array.from(row.begin), end: Float64Array.from(row.end), transfer: new Int32Array(row.kind.length).fill(-1) };
    for (const column of ["kind", "stream", "name", "object", "peer", "bytes", "origin", "stage", "stages", "pass", "microbatch"]) read[column] = row[column];
    if (row.measured) {
      read.measured = { begin: Float64Array.from(row.measured.begin), end: Float64Array.from(row.measured.end) };
    }
    read.class = row.kind.map((kind, i) => this.classOf(kind, row.pass[i]));
    read.lanes = row.streams.map(() => []);
    row.stream.forEach((stream, i) => { if (row.kind[i] !== RECORD) read.lanes[stream].push(i); });
    return read;
  }

  classOf(kind, pass) {
    if (kind === RUN) return pass || "run";
    if (kind === UPDATE) return "update";
    if (kind === WAIT || kind === RECORD) return "wait";
    return isCollective(kind) ? "collective" : "message";
  }

  // Each: begin, end, bytes, then row and instruction of every end; of a message the sender first.
  readTransfers(transfers) {
    this.transfers = transfers.map(([begin, end, bytes, ...ends]) => ({ begin, end, bytes, ends }));
    this.transfers.forEach(({ ends }, t) => {
      for (let k = 0; k < ends.length; k += 2) this.rows[ends[k]].transfer[ends[k + 1]] = t;
    });
  }

  // "F0" of a run of a pass, "2F0" where the rank has several stages; "" where nothing short can be said.
  shortLabel(row, i) {
    if (!row.pass[i]) return "";
    const stage = row.stages[row.stage[i]], number = /\d+$/.exec(stage);
    return (row.stages.length < 2 ? "" : number ? number[0] : `${stage}:`) + row.pass[i] + (row.microbatch[i] < 0 ? "" : row.microbatch[i]);
  }
  label(row, i) {
    const name = this.strings[row.name[i]];
    return row.kind[i] === RUN || row.kind[i] === UPDATE ? name : `${KINDS[row.kind[i]]} ${name}`;
  }
  // How much of a pass's colour: the stages of one rank are shades of it, the first one all.
  shade(row, i) {
    const count = row.stages.length;
    return count < 2 || row.stage[i] < 0 ? 1 : 1 - Math.min(0.4 + 0.1 * (count - 2), 0.7) * row.stage[i] / (count - 1);
  }
  modules(row, i) {
    const program = row.kind[i] === RUN || row.kind[i] === UPDATE ? this.programs[row.object[i]] : undefined;
    return program ? program.origins.map((s) => this.strings[s]) : [];
  }
  origin(row, i) { return row.origin[i] < 0 ? undefined : this.origins[row.origin[i]]; }

  // Everything that a search looks at.
  text(row, i) {
    const origin = this.origin(row, i);
    return [KINDS[row.kind[i]], this.strings[row.name[i]], row.streams[row.stream[i]], origin?.key ?? "", origin?.text ?? "", origin?.why ?? "",
      ...this.modules(row, i)].join("\n").toLowerCase();
  }

  // What each place of the strategy costs: its instructions, and their time on all ranks, without waits. Collectives of
  // a cut, each of which says why it is there, are one.
  costs() {
    const lines = new Map();
    const costs = this.origins.map(({ key, text, why }) => {
      const name = why ? key.slice(key.indexOf("@") + 1) : key;
      if (!lines.has(name)) lines.set(name, { key: name, text, instructions: 0, time: 0, measured: 0 });
      return lines.get(name);
    });
    for (const row of this.rows) {
      for (let i = 0; i < row.count; ++i) {
        if (row.origin[i] < 0) continue;
        const cost = costs[row.origin[i]];
        cost.instructions += row.members;
        if (row.kind[i] === WAIT || row.kind[i] === RECORD) continue;
        const transfer = this.transfers[row.transfer[i]];
        cost.time += row.members * (transfer ? transfer.end - transfer.begin : row.end[i] - row.begin[i]);
        if (row.measured) cost.measured += row.measured.end[i] - row.measured.begin[i];
      }
    }
    return [...lines.values()];
  }

  // Bytes alive in a row's arena and beside it, as steps: times ascending, bytes from each time on.
  memory(row) {
    if (row.curve) return row.curve;
    const changes = [];
    for (const [, bytes, first, last] of row.buffers) changes.push([row.begin[first], bytes], [row.end[last], -bytes]);
    changes.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    const times = [0], bytes = [row.persistent];
    let now = row.persistent, peak = now;
    for (const [time, change] of changes) {
      now += change;
      peak = Math.max(peak, now);
      if (time === times.at(-1)) bytes[bytes.length - 1] = now;
      else { times.push(time); bytes.push(now); }
    }
    row.curve = { times, bytes, peak };
    return row.curve;
  }
  largestAlive(row, time, count) {
    return row.buffers.filter(([, , first, last]) => row.begin[first] <= time && time <= row.end[last])
      .sort((a, b) => b[1] - a[1]).slice(0, count).map(([name, bytes]) => ({ name: this.strings[name], bytes }));
  }

  // What a rank's instructions wait for on the rank itself, its streams' order left out of `edges`: [from, to] by
  // events. `depth`: how many instructions lie in front of each on the longest way.
  dependences(row) {
    if (row.depth) return row;
    row.depth = new Float64Array(row.count);
    row.edges = [];
    const last = row.streams.map(() => -1), pending = row.streams.map(() => []), recorded = new Map();
    for (let i = 0; i < row.count; ++i) {
      const stream = row.stream[i];
      if (row.kind[i] === RECORD) {
        recorded.set(row.name[i], [last[stream], ...pending[stream]].filter((from) => from >= 0));
      } else if (row.kind[i] === WAIT) {
        pending[stream].push(...(recorded.get(row.name[i]) ?? []));
      } else {
        let depth = last[stream] >= 0 ? row.depth[last[stream]] + 1 : 0;
        for (const from of new Set(pending[stream])) {
          depth = Math.max(depth, row.depth[from] + 1);
          if (row.stream[from] !== stream) row.edges.push([from, i]);
        }
        row.depth[i] = depth;
        pending[stream] = [];
        last[stream] = i;
      }
    }
    return row;
  }
}

function largest(numbers) {
  let most = 0;
  for (const number of numbers) most = Math.max(most, number);
  return most;
}
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; ++unit; }
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}
