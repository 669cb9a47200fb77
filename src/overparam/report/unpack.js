// Unpacks plotly, which the page carries as text, and starts it: `overparamPlotly` is a promise of it.
// The text is an LZMA stream (lc = 3, lp = 0, pb = 0), 13 bits in every two characters; `interactive.py` packs it. The page's
// policy names the hash of the program, so that nothing but the very same text would run.
const overparamPlotly = (() => {
  "use strict";

  // Characters 35 to 126 without "<", which is 60, stand for 0 to 90.
  function bytesOf(text) {
    const bytes = new Uint8Array(((text.length / 2) * 13) >> 3);
    let held = 0;
    let count = 0;
    let place = 0;
    const digit = (i) => { const code = text.charCodeAt(i); return code - (code > 60 ? 36 : 35); };
    for (let i = 0; i < text.length; i += 2) {
      held = (held << 13) | (digit(i) * 91 + digit(i + 1));
      for (count += 13; count >= 8 && place < bytes.length; ) bytes[place++] = (held >>> (count -= 8)) & 255;
      held &= (1 << count) - 1;
    }
    return bytes;
  }

  // Places of the models in one array of probabilities, each a share of 2048 that the next bit is 0.
  const MATCH = 0, REP = 12, REP0 = 24, REP1 = 36, REP2 = 48, REP0_LONG = 60, SLOT = 72, SPECIAL = SLOT + 4 * 64;
  const ALIGN = SPECIAL + 115, LENGTH = ALIGN + 16, REP_LENGTH = LENGTH + 274, LITERAL = REP_LENGTH + 274;

  function unpacked(packed, size) {
    const models = new Uint16Array(LITERAL + 0x300 * 8).fill(1024);
    const out = new Uint8Array(size);
    let read = 5; // the first byte is 0, four more fill the code
    let code = ((packed[1] << 24) | (packed[2] << 16) | (packed[3] << 8) | packed[4]) >>> 0;
    let range = 0xffffffff;

    function bit(at) {
      const share = models[at];
      const bound = (range >>> 11) * share;
      let found = 0;
      if (code < bound) {
        range = bound;
        models[at] = share + ((2048 - share) >> 5);
      } else {
        range -= bound;
        code -= bound;
        models[at] = share - (share >> 5);
        found = 1;
      }
      if (range < 0x1000000) {
        range = (range << 8) >>> 0;
        code = ((code << 8) | packed[read++]) >>> 0;
      }
      return found;
    }

    // `count` bits, the highest first, by a tree of models; `back` the lowest first.
    function tree(at, count) {
      let node = 1;
      for (let i = 0; i < count; i++) node = (node << 1) | bit(at + node);
      return node - (1 << count);
    }

    function back(at, count) {
      let node = 1;
      let value = 0;
      for (let i = 0; i < count; i++) {
        const found = bit(at + node);
        node = (node << 1) | found;
        value |= found << i;
      }
      return value;
    }

    function direct(count) {
      let value = 0;
      for (; count > 0; count--) {
        range = range >>> 1;
        const found = code >= range ? 1 : 0;
        if (found) code -= range;
        value = (value << 1) | found;
        if (range < 0x1000000) {
          range = (range << 8) >>> 0;
          code = ((code << 8) | packed[read++]) >>> 0;
        }
      }
      return value;
    }

    const length = (at) => (!bit(at) ? tree(at + 2, 3) : !bit(at + 1) ? 8 + tree(at + 10, 3) : 16 + tree(at + 18, 8));

    function distance(longer) {
      const slot = tree(SLOT + 64 * Math.min(longer, 3), 6);
      if (slot < 4) return slot;
      const more = (slot >> 1) - 1;
      const start = (2 | (slot & 1)) << more;
      if (slot < 14) return start + back(SPECIAL + start - slot, more);
      return start + (direct(more - 4) << 4) + back(ALIGN, 4);
    }

    function literal(place, state, before) {
      const at = LITERAL + 0x300 * (place ? out[place - 1] >> 5 : 0);
      let node = 1;
      if (state >= 7) { // after a match: what stood there guides, until the two part
        for (let other = out[place - before - 1]; node < 0x100; other <<= 1) {
          const guide = (other >> 7) & 1;
          const found = bit(at + ((1 + guide) << 8) + node);
          node = (node << 1) | found;
          if (found !== guide) break;
        }
      }
      while (node < 0x100) node = (node << 1) | bit(at + node);
      return node & 255;
    }

    let state = 0;
    let last = [0, 0, 0, 0]; // the four distances used most recently
    for (let place = 0; place < size; ) {
      if (!bit(MATCH + state)) {
        out[place] = literal(place, state, last[0]);
        place++;
        state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
        continue;
      }
      let count;
      if (!bit(REP + state)) {
        count = length(LENGTH);
        last = [distance(count), last[0], last[1], last[2]];
        count += 2;
        state = state < 7 ? 7 : 10;
      } else if (!bit(REP0 + state)) {
        const long = bit(REP0_LONG + state);
        count = long ? length(REP_LENGTH) + 2 : 1;
        state = state < 7 ? (long ? 8 : 9) : 11;
      } else {
        const turn = !bit(REP1 + state) ? 1 : !bit(REP2 + state) ? 2 : 3;
        last.unshift(last.splice(turn, 1)[0]);
        count = length(REP_LENGTH) + 2;
        state = state < 7 ? 8 : 11;
      }
      for (let from = place - last[0] - 1; count > 0; count--) out[place++] = out[from++];
    }
    return out;
  }

  async function start() {
    const holder = document.getElementById("plotly");
    if (!holder) throw new Error("a page without figures");
    await new Promise((resolve) => setTimeout(resolve)); // what can be read is painted first
    const program = document.createElement("script");
    program.textContent = new TextDecoder().decode(unpacked(bytesOf(holder.textContent), Number(holder.dataset.size)));
    document.body.append(program);
    holder.remove();
    if (!window.Plotly) throw new Error("plotly did not start");
    return window.Plotly;
  }

  const started = start();
  started.catch(() => {}); // the still images stay
  return started;
})();
