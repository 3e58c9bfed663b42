// A terminal of a running job. What is said on the WebSocket is described in
// docs/guide/terminals.md.
"use strict";
(() => {
  const { socket, access } = document.body.dataset;
  const readOnly = access === "view";
  const state = document.getElementById("state"), anew = document.getElementById("anew"), notice = document.getElementById("notice");
  const term = new Terminal({ scrollback: 10000, disableStdin: readOnly, cursorBlink: !readOnly });
  const fit = new FitAddon.FitAddon();
  const bytes = new TextEncoder(), text = new TextDecoder();
  const typed = 0, output = 1, exit = 3, size = 4, joined = 6, screen = 7, ping = 8, notes = 9;
  const shortest = 250, longest = 5000, heartbeat = 15000; // ms
  let ws = null, id = "", seq = 0, over = false, pause = shortest, timer = 0, heard = 0, why = "", stops = 0;

  const say = (words, lost) => { state.textContent = words; state.className = lost ? "lost" : ""; };
  const send = (kind, data) => {
    if (!ws || ws.readyState !== WebSocket.OPEN) return;
    const m = new Uint8Array(1 + data.length);
    m[0] = kind;
    m.set(data, 1);
    ws.send(m);
  };
  const type = (data) => { if (!readOnly) send(typed, data); };
  const tellSize = () => { if (!readOnly) send(size, bytes.encode(JSON.stringify({ cols: term.cols, rows: term.rows }))); };

  function join() {
    clearTimeout(timer);
    if (ws) ws.close();
    const url = new URL(socket, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.searchParams.set("cols", term.cols);
    url.searchParams.set("rows", term.rows);
    url.searchParams.set("notices", "true");
    if (readOnly) url.searchParams.set("view", "true");
    if (id) {
      url.searchParams.set("id", id);
      url.searchParams.set("after", seq);
    }
    const own = ws = new WebSocket(url);
    ws.binaryType = "arraybuffer";
    heard = Date.now();
    why = "connection lost, reconnecting…";
    ws.onmessage = (m) => { if (own === ws) take(new Uint8Array(m.data)); };
    ws.onclose = () => { if (own === ws && !over) again(); };
  }

  // again tries once more, a little later each time, once the server says that the page is
  // still there to be had: a WebSocket doesn't say why it is refused.
  async function again() {
    ws = null;
    say(why, true);
    await new Promise((done) => { timer = setTimeout(done, pause); });
    pause = Math.min(2 * pause, longest);
    try {
      const answer = await fetch(location.href, { headers: { Accept: "application/json" }, cache: "no-store", redirect: "manual" });
      if (answer.ok && answer.headers.get("Croft-Access") === access) return join();
      if (answer.ok || answer.status === 401) return location.reload(); // another right, or a login
      const problem = await answer.json();
      if (answer.status < 500) return end(problem.detail || problem.title, false);
      why = problem.title;
    } catch {
      why = "connection lost, reconnecting…"; // the server is away
    }
    again();
  }

  function end(words, shell) {
    over = true;
    say(words, false);
    term.options.disableStdin = true;
    term.options.cursorBlink = false;
    anew.hidden = !shell || readOnly;
    if (!anew.hidden) anew.focus();
  }

  anew.onclick = () => {
    anew.hidden = true;
    over = false;
    id = "";
    seq = 0;
    term.options.disableStdin = readOnly;
    term.options.cursorBlink = !readOnly;
    term.focus();
    join();
  };

  function take(b) {
    const rest = b.subarray(1);
    heard = Date.now();
    switch (b[0]) {
      case output:
        seq += rest.length;
        term.write(rest);
        break;
      case screen:
        term.write(rest);
        break;
      case exit:
        left(JSON.parse(text.decode(rest)));
        break;
      case size: {
        const s = JSON.parse(text.decode(rest));
        if (s.cols !== term.cols || s.rows !== term.rows) term.resize(s.cols, s.rows);
        break;
      }
      case joined: {
        const j = JSON.parse(text.decode(rest));
        if (j.id !== id || j.lost || j.seq !== seq) term.reset();
        ({ id, seq } = j);
        pause = shortest;
        say(j.lost ? `${j.lost} bytes of output aren't kept any more` : "connected", false);
        break;
      }
      case notes: {
        const n = JSON.parse(text.decode(rest));
        stops = n.stops_at ? Date.parse(n.stops_at) : 0;
        notice.dataset.text = n.text || "";
        countDown();
        break;
      }
    }
  }

  // left is told how the terminal was left, or why it wasn't joined.
  function left(r) {
    if (!r.error) return end(`the shell has ended (exit ${r.exit_code})`, true);
    switch (r.code) {
      case "unavailable": // the connection ends, and is made again
        return;
      case "conflict": // the job may be starting: the page is asked
      case "too_many_requests":
        why = r.error;
        return;
      case "not_found": // nobody has opened it yet
        why = r.error;
        if (!readOnly) end(r.error, false);
        return;
    }
    end(r.error, r.code === "gone");
  }

  function countDown() {
    notice.hidden = !stops;
    if (!stops) return;
    const s = Math.max(0, Math.round((stops - Date.now()) / 1000));
    const left = s >= 3600 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : s >= 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s} s`;
    notice.textContent = `${notice.dataset.text}: it stops in ${left}. Work in it, or croft keep 6h, keeps it.`;
  }

  // A laptop that slept has a connection that is none: it is tried, and made anew.
  setInterval(() => {
    if (!ws || ws.readyState !== WebSocket.OPEN) return;
    if (Date.now() - heard > 2 * heartbeat) return join();
    send(ping, new Uint8Array(0));
  }, heartbeat);
  setInterval(countDown, 1000);

  term.loadAddon(fit);
  term.open(document.getElementById("screen"));
  fit.fit();
  term.onData((d) => type(bytes.encode(d)));
  term.onBinary((d) => type(Uint8Array.from(d, (c) => c.charCodeAt(0))));
  // Ctrl-Shift-C and Ctrl-Shift-V copy and paste; Ctrl-C is the program's.
  term.attachCustomKeyEventHandler((e) => {
    if (e.type !== "keydown" || !e.ctrlKey || !e.shiftKey) return true;
    if (e.code === "KeyC" && term.hasSelection()) {
      navigator.clipboard?.writeText(term.getSelection());
      e.preventDefault();
      return false;
    }
    if (e.code === "KeyV" && !readOnly && navigator.clipboard?.readText) {
      navigator.clipboard.readText().then((t) => term.paste(t));
      e.preventDefault();
      return false;
    }
    return true;
  });
  // Whoever looks at the page uses it: the terminal has the size of this window then.
  const resize = () => { if (readOnly) return; fit.fit(); tellSize(); };
  new ResizeObserver(resize).observe(document.getElementById("screen"));
  window.addEventListener("focus", resize);
  window.addEventListener("online", () => { if (!over && ws) join(); });
  term.focus();
  join();
})();
